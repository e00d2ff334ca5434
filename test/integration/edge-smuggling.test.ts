import test from "ava";
import { onlyAgent, startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { sendRaw } from "../helpers/raw-http.ts";

const edge = await startEdgeUnderTest();
const agent = onlyAgent(edge);
test.after.always(() => edge.stop());

const auth = `Authorization: Bearer ${edge.apiKey}\r\n`;
const chat = "POST /v1/chat/completions HTTP/1.1\r\nHost: edge.example\r\n";
const json = "Content-Type: application/json\r\n";
const good = `${chat}${auth}${json}`;
/** A second request, with a key that is good, where a careless reader would see one. */
const hidden = `GET /v1/models?hidden HTTP/1.1\r\nHost: edge.example\r\n${auth}\r\n`;

/** Sends bytes; tells the answers' statuses, and what the agent saw of them. */
const send = async (bytes: string) => {
  const before = agent.requests.length;
  const answers = await sendRaw(edge.url, bytes);
  return { answers, statuses: answers.map(({ status }) => status), seen: agent.requests.slice(before) };
};

/** What is refused, and never reaches an agent. One 400 ends the connection: what follows is read by nobody. */
const refused: Readonly<Record<string, string>> = {
  "two lengths that differ": `${good}Content-Length: 2\r\nContent-Length: ${hidden.length + 2}\r\n\r\n{}${hidden}`,
  "a list of lengths": `${good}Content-Length: 2, 2\r\n\r\n{}`,
  "a length with a sign": `${good}Content-Length: +2\r\n\r\n{}`,
  "a negative length": `${good}Content-Length: -1\r\n\r\n{}${hidden}`,
  "a hexadecimal length": `${good}Content-Length: 0x2\r\n\r\n{}`,
  "a length beyond 64 bits": `${good}Content-Length: 99999999999999999999\r\n\r\n{}`,
  "an empty length": `${good}Content-Length: \r\n\r\n{}${hidden}`,
  "an unknown transfer coding": `${good}Transfer-Encoding: xchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n${hidden}`,
  "a transfer coding after a space": `${good}Transfer-Encoding : chunked\r\nContent-Length: 2\r\n\r\n{}`,
  "a transfer coding after a vertical tab": `${good}Transfer-Encoding: \x0bchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
  "two transfer codings, chunked not last": `${good}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
  "chunks in HTTP/1.0": `${good.replace("1.1", "1.0")}Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
  "a folded field": `${good}X-A: b\r\n Content-Length: 60\r\nContent-Length: 2\r\n\r\n{}`,
  "a folded transfer coding": `${good}Transfer-Encoding:\r\n chunked\r\nContent-Length: 2\r\n\r\n{}`,
  "a bare CR in a field": `${good}X-A: b\rTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}`,
  "a field that a bare LF makes, against a length": `${good}X-A: b\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}`,
  "a space before the first field": `${chat.replace("Host", " Host")}${auth}${json}Content-Length: 2\r\n\r\n{}`,
  "a NUL in a field": `${good}X-A: \0b\r\nContent-Length: 2\r\n\r\n{}`,
  "a NUL in a field's name": `${good}X\0A: b\r\nContent-Length: 2\r\n\r\n{}`,
  "a NUL in the target": `GET /v1/models/\0 HTTP/1.1\r\nHost: a\r\n${auth}\r\n`,
  "a control character in the target": `GET /v1/models/\x01 HTTP/1.1\r\nHost: a\r\n${auth}\r\n`,
  "a space in the target": `GET /v1/models x HTTP/1.1\r\nHost: a\r\n${auth}\r\n`,
  "a target without a slash": `GET v1/models HTTP/1.1\r\nHost: a\r\n${auth}\r\n`,
  "an authority as the target": `GET agent.example:80 HTTP/1.1\r\nHost: a\r\n${auth}\r\n`,
  "a target that begins with two slashes": `GET //agent.example/v1/models HTTP/1.1\r\nHost: a\r\n${auth}\r\n`,
  "dots that leave the route": `GET /v1/models/../../readyz HTTP/1.1\r\nHost: a\r\n${auth}\r\n`,
  "encoded dots that leave the route": `GET /v1/models/%2e%2e/%2E%2e/readyz HTTP/1.1\r\nHost: a\r\n${auth}\r\n`,
  "backslashes that leave the route": `GET /v1/models/x\\..\\..\\metrics HTTP/1.1\r\nHost: a\r\n${auth}\r\n`,
  "a chunk with a prefixed size": `${good}Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n`,
  "a chunk with a negative size": `${good}Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n`,
  "a chunk whose size overflows": `${good}Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\n{}\r\n0\r\n\r\n${hidden}`,
  "a chunk longer than its size": `${good}Transfer-Encoding: chunked\r\n\r\n2\r\n{}XX\r\n0\r\n\r\n${hidden}`,
  "a chunk extension that ends with a bare LF": `${good}Transfer-Encoding: chunked\r\n\r\n2;a\n{}\r\n0\r\n\r\n${hidden}`,
  "chunks that end with bare LFs": `${good}Transfer-Encoding: chunked\r\n\r\n2\n{}\n0\n\n${hidden}`,
  "a body that breaks off": `${good}Content-Length: 20\r\n\r\n{}`,
  "chunks that break off": `${good}Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n`,
  "no Host": `GET /v1/models HTTP/1.1\r\n${auth}\r\n`,
  "an empty Host": `GET /v1/models HTTP/1.1\r\nHost: \r\n${auth}\r\n`,
  "two Hosts": `GET /v1/models HTTP/1.1\r\nHost: a\r\nHost: b\r\n${auth}\r\n`,
  "a Host with a space": `GET /v1/models HTTP/1.1\r\nHost: a b\r\n${auth}\r\n`,
  "a Host with a path": `GET /healthz HTTP/1.1\r\nHost: a/v1/models?\r\n${auth}\r\n`,
  "a Host with a fragment": `GET /healthz HTTP/1.1\r\nHost: a/v1/models#\r\n${auth}\r\n`,
  "a Host with a name and a password": `GET /v1/models HTTP/1.1\r\nHost: u:p@a\r\n${auth}\r\n`,
  "a Host that is no address": `GET /v1/models HTTP/1.1\r\nHost: [\r\n${auth}\r\n`,
  "a Host with a port that is none": `GET /v1/models HTTP/1.1\r\nHost: a:99999\r\n${auth}\r\n`,
};

for (const [title, bytes] of Object.entries(refused)) {
  test.serial(`${title}: the request is refused, and no agent sees anything of it`, async (t) => {
    const { statuses, seen } = await send(bytes);
    t.is(statuses.length, 1, statuses.join());
    t.true([400, 404].includes(statuses[0] ?? 0), statuses.join());
    t.deepEqual(seen, []);
  });
}

/** What is one request, and reaches the agent as one: in a message of the edge's own, with one length and no coding. */
const one: Readonly<Record<string, string>> = {
  "chunks beside a length": `${good}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n${hidden}`,
  "a length beside chunks": `${good}Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n${hidden}`,
  "two lengths that agree": `${good}Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}`,
  "another coding before chunked": `${good}Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
  "chunked in other letters": `${good}Transfer-Encoding: ChUnKeD\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
  "a chunk extension": `${good}Transfer-Encoding: chunked\r\n\r\n2;a="b"\r\n{}\r\n0\r\n\r\n`,
  "trailers that look like fields": `${good}Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Lockgate-Key-Id: other\r\nContent-Length: 9\r\n\r\n`,
  "lines that end with a bare LF": `${good}Content-Length: 2\r\n\r\n{}`.replaceAll("\r\n", "\n"),
  "an expectation": `${good}Content-Length: 2\r\nExpect: 100-continue\r\n\r\n{}`,
  "an upgrade to HTTP/2": `${good}Content-Length: 2\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n{}`,
  "fields that Connection calls hop-by-hop": `${good}Content-Length: 2\r\nConnection: close, authorization, x-lockgate-key-id\r\n\r\n{}`,
};

for (const [title, bytes] of Object.entries(one)) {
  test.serial(`${title}: the agent sees exactly one request`, async (t) => {
    const { statuses, seen } = await send(bytes);
    t.deepEqual(statuses, [200]);
    t.is(seen.length, 1);
    t.is(seen[0]?.url, "/v1/chat/completions");
    t.is(seen[0]?.body.toString(), "{}");
    const fields = new Map(seen[0]?.headers);
    t.is(fields.get("content-length"), "2");
    t.is(fields.get("x-lockgate-key-id"), edge.keyId);
    for (const name of ["transfer-encoding", "expect", "upgrade", "http2-settings", "x-a"]) t.false(fields.has(name));
    t.deepEqual(agent.refusals, []);
  });
}

test.serial("an ambiguous body with nothing in it is refused, and what follows is not read", async (t) => {
  const bytes = `${good}Content-Length: ${hidden.length + 5}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`;
  const { statuses, seen } = await send(bytes);
  t.deepEqual(statuses, [400]);
  t.deepEqual(seen, []);
});

test.serial("a request inside the body of another one is a body", async (t) => {
  const inGet = await send(
    `GET /v1/models HTTP/1.1\r\nHost: a\r\n${auth}Content-Length: ${hidden.length}\r\n\r\n${hidden}`,
  );
  t.deepEqual(inGet.statuses, [200]);
  t.deepEqual(
    inGet.seen.map(({ method, url, body }) => [method, url, body.length]),
    [["GET", "/v1/models", 0]],
  );
  const inRefused = await send(`${chat}${json}Content-Length: ${hidden.length}\r\n\r\n${hidden}`);
  t.deepEqual(inRefused.statuses, [401]);
  t.deepEqual(inRefused.seen, []);
});

test.serial(
  "requests that follow each other on one connection stay what they are, each with its own answer",
  async (t) => {
    agent.script = (reply, request) => {
      reply.head(200, { "content-type": "application/json" });
      void reply.write(JSON.stringify(request.url)).then(() => reply.end());
    };
    const { answers, seen } = await send(
      `${good}Content-Length: 2\r\n\r\n{}${hidden}GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n`,
    );
    t.deepEqual(
      answers.map(({ body }) => body.toString()),
      ['"/v1/chat/completions"', '"/v1/models?hidden"', '{"status":"ok"}'],
    );
    t.is(new Set(answers.map(({ headers }) => headers.get("x-request-id"))).size, 3);
    t.is(seen.length, 2);
  },
);

test.serial("a method that HTTP does not know ends at the runtime", async (t) => {
  for (const method of ["FOO", "get", "GETT"]) {
    t.deepEqual((await send(`${method} /v1/models HTTP/1.1\r\nHost: a\r\n${auth}\r\n`)).statuses, [501], method);
  }
  const { seen } = await send(`CONNECT agent.example:80 HTTP/1.1\r\nHost: a\r\n${auth}\r\n`);
  t.deepEqual(seen, []);
});
