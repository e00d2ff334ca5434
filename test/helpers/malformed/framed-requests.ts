/**
 * Requests that are HTTP to the letter and ask for what nobody may have, in a way that nobody means, or with what is no JSON. None of them
 * may come past the edge.
 */
import { HEARTBEAT_PATH, USAGE_PATH } from "@lockgate/shared-types";
import { signedAsAgent } from "../fleet-heartbeats.ts";
import { type Draw, KEY_CHARS } from "./draw.ts";
import type { MalformedWorld } from "./malformed-world.ts";

export type Field = readonly [name: string, value: string];

export interface Framed {
  readonly kind: string;
  readonly method: string;
  readonly target: string;
  readonly fields: readonly Field[];
  readonly body?: Buffer;
  /** Anybody may have it: a success is no fault. */
  readonly isPublic?: true;
}

const goodBody = Buffer.from('{"model":"m","messages":[{"role":"user","content":"hello"}]}');
const json: Field = ["content-type", "application/json"];
const printable = Array.from({ length: 94 }, (_, at) => String.fromCharCode(0x21 + at)).join("");
/** Methods that the runtime knows; others end there. */
const methods = [
  "GET",
  "HEAD",
  "POST",
  "PUT",
  "DELETE",
  "PATCH",
  "OPTIONS",
  "TRACE",
  "PURGE",
  "PROPFIND",
  "LOCK",
  "SEARCH",
];

/** Credentials that are none; never the good one. */
const badCredential = (draw: Draw, { key, otherKeys, adminToken }: MalformedWorld): readonly Field[] => {
  const forms: readonly (() => readonly Field[])[] = [
    () => [],
    () => [["authorization", ""]],
    () => [["authorization", "Bearer"]],
    () => [["authorization", `Basic ${key}`]],
    () => [["authorization", key]],
    () => [["authorization", `Bearer ${draw.text(1, 300, printable)}`]],
    () => [["authorization", `Bearer ${draw.altered(key)}`]],
    // Its id, and so its object, with another secret.
    () => [["authorization", `Bearer ${key.slice(0, 36)}${draw.text(43, 43, KEY_CHARS)}`]],
    () => [["authorization", `Bearer lg_${draw.text(32, 32, "0123456789abcdef")}_${draw.text(43, 43, KEY_CHARS)}`]],
    () => [["authorization", `Bearer ${draw.pick(otherKeys)}`]],
    () => [["x-api-key", draw.altered(key)]],
    () => [["authorization", `Bearer ${key.slice(0, draw.int(1, key.length - 1))}`]],
    () => [["authorization", `Bearer ${key}${draw.text(1, 300, KEY_CHARS)}`]],
    () => [["authorization", `Bearer ${key.toUpperCase()}`]],
    () => [["authorization", `Bearer ${key}, Bearer ${key}`]],
    () => [
      ["authorization", `Bearer ${key}`],
      ["authorization", `Bearer ${key}`],
    ],
    () => [
      ["authorization", `Bearer ${key}`],
      ["x-api-key", draw.altered(key)],
    ],
    () => [["x-api-key", `${key},${key}`]],
    () => [
      [
        "authorization",
        `Bearer ${draw
          .bytes(1, 80)
          .toString("latin1")
          .replaceAll(/[^\x21-\x7e\x80-\xff]/g, "~")}`,
      ],
    ],
    () => [["authorization", `Bearer ${draw.text(257, 4_000, KEY_CHARS)}`]],
    () => [
      ["cookie", `authorization=Bearer ${key}`],
      ["x-authorization", `Bearer ${key}`],
    ],
    () => [["authorization", `Bearer ${adminToken}`]],
  ];
  return draw.pick(forms)();
};

/** Bytes that are no JSON object. */
const badJson = (draw: Draw): Buffer => {
  const good = goodBody.toString();
  const depth = draw.int(65, 3_000);
  const forms: readonly (() => string | Buffer)[] = [
    () => good.slice(0, draw.int(0, good.length - 1)),
    () => `${good}${draw.text(1, 5)}`,
    () => draw.text(1, 60, printable).replaceAll("{", "("),
    () => Buffer.from(draw.bytes(1, 200).map((byte) => (byte === 0x7b ? 0x7c : byte))),
    () =>
      draw.pick([
        "null",
        "true",
        "1",
        '"text"',
        "[]",
        "[{}]",
        "NaN",
        "-",
        "{'a':1}",
        "{a:1}",
        '{"a":01}',
        '{"a":"\n"}',
        "{}{}",
        '{"a":1,}',
      ]),
    () => `{"a":${draw.pick(["[", '{"a":'])}`.repeat(depth),
    () => `{"a":${"[".repeat(depth)}${"]".repeat(depth)}}`,
    () =>
      Buffer.concat([
        Buffer.from('{"a":"'),
        Buffer.from([draw.pick([0x80, 0xc0, 0xff, 0xed]), 0xa0]),
        Buffer.from('"}'),
      ]),
    () => Buffer.from(good, "utf16le"),
  ];
  const body = draw.pick(forms)();
  return typeof body === "string" ? Buffer.from(body) : body;
};

const nowhere = (draw: Draw): string =>
  draw.pick([
    () => `/${draw.text(7, 40, printable).replaceAll(/[.?#/\\]/g, "-")}`,
    () => `/v1/${draw.text(7, 20)}`,
    () => "/v1/models/",
    () => `/v1/models/${"../".repeat(draw.int(1, 9))}${draw.text(7, 9)}`,
    () => `/v1/models/${"%2e%2E/".repeat(draw.int(1, 9))}${draw.text(7, 9)}`,
    () => `//${draw.text(7, 9)}/v1/models`,
    () => `/%76%31/models`,
    () => `/V1/MODELS`,
    () => `/v1%2fmodels`,
    () => `/v1/chat/completions/${draw.text(1, 9)}`,
    () => `/internal/v1/${draw.text(7, 20)}`,
    () => `/.${draw.text(2, 9)}/${draw.text(1, 9)}`,
  ])();

const withKey = ({ key }: MalformedWorld): Field => ["authorization", `Bearer ${key}`];

const clientRequest = (draw: Draw, world: MalformedWorld): Framed => {
  const target = draw.pick(["/v1/chat/completions", "/v1/models", `/v1/models/${draw.text(1, 30)}`]);
  const isPost = target === "/v1/chat/completions";
  const request = { kind: "credential", target, fields: badCredential(draw, world) };
  if (isPost) return { ...request, method: "POST", fields: [json, ...request.fields], body: goodBody };
  return { ...request, method: draw.pick(["GET", "HEAD"]) };
};

const badBody = (draw: Draw, world: MalformedWorld): Framed => ({
  kind: "body",
  method: "POST",
  target: "/v1/chat/completions",
  fields: [withKey(world), json],
  body: badJson(draw),
});

const badType = (draw: Draw, world: MalformedWorld): Framed => ({
  kind: "type",
  method: "POST",
  target: "/v1/chat/completions",
  fields: [
    withKey(world),
    ...draw.pick<readonly Field[]>([
      [],
      [["content-type", `text/${draw.text(1, 9)}`]],
      [["content-type", `application/json${draw.text(1, 9)}`]],
      [["content-type", `multipart/form-data; boundary=${draw.text(1, 60)}`]],
      [json, ["content-encoding", draw.pick(["gzip", "br", "deflate", "gzip, identity", draw.text(1, 9)])]],
    ]),
  ],
  body: goodBody,
});

const badRoute = (draw: Draw, world: MalformedWorld): Framed => {
  const method = draw.pick(methods);
  const fields = [withKey(world), json];
  if (draw.chance(0.3)) {
    const [target, wrong] = draw.pick([
      ["/v1/chat/completions", ["GET", "HEAD", "PUT", "DELETE", "TRACE"]],
      ["/v1/models", ["POST", "PUT", "DELETE", "PATCH", "LOCK"]],
      ["/healthz", ["POST", "PUT", "DELETE", "PROPFIND"]],
      [USAGE_PATH, ["GET", "PUT", "DELETE"]],
    ] as const);
    return { kind: "method", method: draw.pick(wrong), target, fields };
  }
  if (draw.chance(0.1)) {
    const target = `/v1/models${draw.pick(["?", "/"])}${draw.text(8_192, 12_000, "abcxyz/?=&")}`;
    return { kind: "long target", method: "GET", target, fields };
  }
  const target = `${nowhere(draw)}${draw.chance(0.5) ? `?${draw.text(0, 40, printable).replaceAll("#", "-")}` : ""}`;
  return { kind: "path", method, target, fields, ...(method === "POST" ? { body: goodBody } : {}) };
};

const badHost = (draw: Draw, world: MalformedWorld): Framed => ({
  kind: "host",
  method: "GET",
  target: draw.pick(["/v1/models", "/healthz"]),
  fields: [
    [
      "host",
      `${draw.text(1, 9)}${draw.pick([" ", "/", "?", "#", "@", ",", "[", ":x", "\\", "%", "<", "|"])}${draw.text(1, 9)}`,
    ],
    withKey(world),
  ],
});

const garbledSignature = (draw: Draw): readonly Field[] => {
  const components = draw.pick([
    '"@method"',
    '"@method" "@path" "@query" "content-digest"',
    draw.text(0, 30, printable),
    '"@method";req',
    '"a";sf',
  ]);
  const parameters = draw.pick([
    `;created=${draw.int(-9, 2_000_000_000)};keyid="k1";alg="hmac-sha256"`,
    `;created=1;expires=2;nonce="${draw.text(0, 80)}";keyid="${draw.text(0, 80)}";alg="${draw.text(1, 12)}"`,
    draw.text(0, 60, printable),
  ]);
  const label = draw.pick(["lockgate", draw.text(1, 9)]);
  return [
    ["signature-input", `${label}=(${components})${parameters}`],
    [
      "signature",
      draw.pick([`${label}=:${draw.text(0, 60, KEY_CHARS)}:`, draw.text(0, 60, printable), `${label}=:AAAA:`]),
    ],
    ["content-digest", draw.pick(["sha-256=:AAAA:", draw.text(1, 60, printable)])],
  ];
};

const agentMessage = async (draw: Draw, world: MalformedWorld): Promise<Framed> => {
  const path = draw.pick([HEARTBEAT_PATH, USAGE_PATH]);
  const body = draw.pick([world.heartbeat, '{"agent_id":"agent-0","records":[]}', "{}", draw.text(1, 60, printable)]);
  const request = { kind: "message", method: "POST", target: path, body: Buffer.from(body) };
  if (draw.chance(0.7)) return { ...request, fields: [json, ...garbledSignature(draw)] };
  if (draw.chance(0.2))
    return {
      ...request,
      kind: "replay",
      target: HEARTBEAT_PATH,
      fields: world.spent,
      body: Buffer.from(world.heartbeat),
    };
  const message = { path, body };
  const how = draw.pick(["altered body", "altered field", "another agent", "stale", "unknown signer"] as const);
  const nowMs = Date.now() + (how === "stale" ? draw.pick([-1, 1]) * draw.int(100_000, 10_000_000) : 0);
  const signer = how === "unknown signer" ? world.stranger : world.edge;
  const fields: Field[] = await signedAsAgent(signer, 0, {
    ...message,
    nowMs,
    nonce: draw.text(22, 22, KEY_CHARS),
    ...(how === "another agent" ? { agent: draw.text(1, 12) } : {}),
  });
  if (how === "altered body") return { ...request, kind: how, fields, body: Buffer.from(`${body} `) };
  if (how !== "altered field") return { ...request, kind: how, fields };
  const at = draw.pick(
    [...fields.keys()].filter((index) => /^(x-lockgate|signature|content-digest)/.test(fields[index]?.[0] ?? "")),
  );
  // The last character of base64 has bits that say nothing.
  const altered = fields.map(
    ([name, value], index): Field => [name, index === at ? draw.altered(value, 0, value.length - 3) : value],
  );
  return { ...request, kind: how, fields: altered };
};

const adminRequest = (draw: Draw, world: MalformedWorld): Framed => {
  const token = world.adminToken;
  const credential = draw.pick<readonly Field[]>([
    [],
    [["authorization", `Bearer ${draw.altered(token)}`]],
    [["authorization", `Bearer ${world.key}`]],
    [["authorization", `Basic ${token}`]],
    [["authorization", `Bearer ${token},Bearer ${token}`]],
    [["x-api-key", token]],
    [["authorization", `Bearer ${draw.text(1, 400, printable)}`]],
    [
      ["cookie", token],
      ["x-admin-token", token],
    ],
  ]);
  const path = draw.pick([
    "",
    "/",
    "/v1",
    "/v1/keys",
    "/v1/tenants",
    "/v1/openapi.json",
    `/v1/${draw.text(1, 20, printable).replaceAll(/[#\\.]/g, "-")}`,
    "/v1/../v1/keys",
  ]);
  const method = draw.pick(methods);
  const hasBody = ["POST", "PUT", "PATCH"].includes(method);
  return {
    kind: "admin",
    method,
    target: `${draw.chance(0.1) && method !== "OPTIONS" ? "/metrics" : `/admin${path}`}${draw.chance(0.3) ? `?token=${token}` : ""}`,
    fields: [json, ...credential],
    ...(hasBody ? { body: draw.pick([goodBody, badJson(draw), Buffer.from('{"tenant":"stranger"}')]) } : {}),
  };
};

const publicRequest = (draw: Draw): Framed => {
  const fields: readonly Field[] = [
    [`x-${draw.text(1, 30)}`, draw.text(0, 2_000, printable)],
    ["x-request-id", draw.text(0, 200, printable)],
    ["traceparent", draw.text(0, 80, printable)],
    ["origin", draw.text(0, 80, printable)],
  ];
  const [method, target] = draw.pick([
    ["GET", "/healthz"],
    ["HEAD", "/healthz"],
    ["OPTIONS", "/v1/models"],
    ["OPTIONS", "/v1/chat/completions"],
    ["OPTIONS", USAGE_PATH],
  ] as const);
  return { kind: "public", method, target, fields, isPublic: true };
};

/** One request. */
export const drawFramed = async (draw: Draw, world: MalformedWorld): Promise<Framed> => {
  const families = [
    clientRequest,
    clientRequest,
    badBody,
    badBody,
    badType,
    badRoute,
    badRoute,
    badHost,
    adminRequest,
    publicRequest,
  ];
  return draw.chance(0.1) ? agentMessage(draw, world) : draw.pick(families)(draw, world);
};

/** Its bytes. */
export const bytesOf = ({ method, target, fields, body }: Framed): Buffer => {
  const lines = [
    `${method} ${target} HTTP/1.1`,
    ...(fields.some(([name]) => name === "host") ? [] : ["host: edge.example"]),
    ...fields.map(([name, value]) => `${name}: ${value}`),
    ...(body === undefined ? [] : [`content-length: ${body.length}`]),
  ];
  return Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1"), body ?? Buffer.alloc(0)]);
};
