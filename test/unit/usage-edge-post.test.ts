import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import test, { type ExecutionContext } from "ava";
import { createRequestVerifier, type RequestVerifier } from "../../gpu-agent/src/auth/verify-request.ts";
import { createEdgePost } from "../../gpu-agent/src/usage/edge-post.ts";

const keyOf = (byte: number) => new Uint8Array(32).fill(byte);

/** A server that judges signatures and answers 204, 401, or what `answer` says; with the requests that it took. */
const startServer = async (t: ExecutionContext, verifier: RequestVerifier, answer?: number) => {
  const taken: { url: string; body: string; agentId: string; keyId: string }[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      const body = await text(request);
      const headers: [string, string][] = [];
      for (let at = 0; at + 1 < request.rawHeaders.length; at += 2) {
        headers.push([request.rawHeaders[at] ?? "", request.rawHeaders[at + 1] ?? ""]);
      }
      const { method = "", url = "" } = request;
      const head = await verifier.verifyHead(method, url, headers);
      if (!head.ok || !verifier.verifyBody(head.contentDigest, Buffer.from(body))) return response.writeHead(401).end();
      taken.push({ url, body, agentId: head.lockgate.keyId, keyId: head.keyId });
      return response.writeHead(answer ?? 204, { location: "/elsewhere" }).end("an answer");
    })();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, taken };
};

const never = new AbortController().signal;

test("a message is signed for its path under the edge's URL, and names the agent", async (t) => {
  const verifier = createRequestVerifier({ keys: new Map([["k1", keyOf(1)]]), now: Date.now, startedAtMs: 0 });
  const { url, taken } = await startServer(t, verifier);
  const keys = () => new Map([["k1", keyOf(1)]]);
  for (const edgeUrl of [`${url}/base`, `${url}/base/`]) {
    const post = createEdgePost({ edgeUrl, agentId: "gpu-7", keys, nowMs: Date.now });
    t.is(await post("/internal/v1/usage", '{"ä":1}', never), 204);
    t.is(await post("/internal/v1/usage", '{"ä":1}', never), 204);
  }
  t.is(taken.length, 4);
  for (const request of taken) {
    t.deepEqual(request, { url: "/base/internal/v1/usage", body: '{"ä":1}', agentId: "gpu-7", keyId: "k1" });
  }
});

test("while keys are rotated, the next try after a 401 is signed by the next key, and stays with one that is known", async (t) => {
  const verifier = createRequestVerifier({ keys: new Map([["k2", keyOf(2)]]), now: Date.now, startedAtMs: 0 });
  const { url, taken } = await startServer(t, verifier);
  const keys = new Map([
    ["k1", keyOf(1)],
    ["k2", keyOf(2)],
  ]);
  const post = createEdgePost({ edgeUrl: url, agentId: "gpu-7", keys: () => keys, nowMs: Date.now });
  const statuses = [];
  for (let tries = 0; tries < 4; tries++) statuses.push(await post("/a", "{}", never));
  t.deepEqual(statuses, [401, 204, 204, 204]);
  keys.delete("k1");
  t.is(await post("/a", "{}", never), 204);
  t.true(taken.every(({ keyId }) => keyId === "k2"));
  keys.clear();
  await t.throwsAsync(post("/a", "{}", never), { message: /no signing key/ });
});

test("a redirect is not followed, and a signal that says stop rejects", async (t) => {
  const verifier = createRequestVerifier({ keys: new Map([["k1", keyOf(1)]]), now: Date.now, startedAtMs: 0 });
  const { url, taken } = await startServer(t, verifier, 307);
  const keys = () => new Map([["k1", keyOf(1)]]);
  const post = createEdgePost({ edgeUrl: url, agentId: "gpu-7", keys, nowMs: Date.now });
  t.is(await post("/a", "{}", never), 307);
  t.is(taken.length, 1);
  await t.throwsAsync(post("/a", "{}", AbortSignal.abort()));
});
