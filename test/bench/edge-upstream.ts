/**
 * The upstream of the edge's bench, a process of its own: it streams as many stamped events as a request's body orders, each in a write of
 * its own, and delivers a usage record for each turn to the edge that sent it. It verifies no signature and runs no model; what it costs is
 * in every figure alike.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setImmediate, setTimeout } from "node:timers/promises";
import { accountSchema, Deliveries, recordOf } from "./edge-accounts.ts";
import { clockUs, eventAt, orderSchema } from "./edge-load.ts";

/** As an agent has it: less would race with the edge's own reuse of connections. */
const KEEP_ALIVE_TIMEOUT_MS = 75_000;

/** By the path that their edges send turns to. */
const deliveries = new Map<string, Deliveries>();

const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  const { events, paceMs } = orderSchema.parse(JSON.parse(Buffer.concat(chunks).toString())).metadata;
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  for (let sent = 0; sent < events; sent += 1) {
    if (sent > 0) await (paceMs > 0 ? setTimeout(paceMs) : setImmediate());
    response.write(eventAt(clockUs()));
  }
  const account = deliveries.get(request.url ?? "");
  const record = account && recordOf(request.headers, account.agent, events, Date.now());
  if (record !== undefined) account?.add(record);
  response.end();
};

const server = createServer({ keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS, noDelay: true }, (request, response) => {
  response.on("error", () => undefined);
  answer(request, response).catch(() => response.socket?.destroy());
});
server.listen(0, "127.0.0.1");
await once(server, "listening");
process.once("disconnect", () => process.exit());
process.on("SIGINT", () => undefined);
process.on("message", (message) => {
  const account = accountSchema.parse(message);
  deliveries.set(`/${account.agent}/v1/chat/completions`, new Deliveries(account));
});
process.send?.({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
