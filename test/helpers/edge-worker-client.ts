/**
 * A client that shows what really came over the wire: undecoded bytes, whether the end was a clean one, and sockets that a test
 * can cut. fetch() would hide all three.
 */
import { once } from "node:events";
import { Agent, type ClientRequest, request as httpRequest, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { EdgeUnderTest } from "./edge-worker.ts";

export interface RawRequest {
  readonly method?: string;
  readonly path?: string;
  /** A list is sent as so many lines. */
  readonly headers?: Readonly<Record<string, string | string[]>>;
  readonly body?: string | Uint8Array;
  /** False: no credential is added. */
  readonly authorized?: boolean;
}

export interface RawResponse {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly socket: Socket;
  /** Bytes as they come; each read settles when some are there, with undefined at a clean end; it throws if the body broke off. */
  read(): Promise<Buffer | undefined>;
  /** All bytes that come, and how it ended. */
  rest(): Promise<{ bytes: Buffer; clean: boolean }>;
}

export interface OpenRequest {
  readonly request: ClientRequest;
  readonly response: Promise<RawResponse>;
}

/** Sends a request on a connection of its own: a chat completion with a small body unless told otherwise. */
export const open = (edge: Pick<EdgeUnderTest, "url" | "apiKey">, options: RawRequest = {}): OpenRequest => {
  const { method = "POST", path = "/v1/chat/completions", headers = {}, authorized = true } = options;
  const { body = method === "POST" ? "{}" : undefined } = options;
  const { hostname, port } = new URL(edge.url);
  const request = httpRequest({ hostname, port, method, path, agent: new Agent({ keepAlive: false }) });
  if (authorized) request.setHeader("authorization", `Bearer ${edge.apiKey}`);
  if (method === "POST") request.setHeader("content-type", "application/json");
  for (const [name, value] of Object.entries(headers)) request.setHeader(name, value);
  const response = once(request, "response").then(([incoming]) => rawResponse(incoming as IncomingMessage));
  // Who cuts a request before its response is not waiting for one.
  response.catch(() => undefined);
  // Nor is an edge that refuses a body before it was all sent doing wrong: what counts is the response.
  request.on("error", () => undefined);
  request.end(body);
  return { request, response };
};

const rawResponse = (incoming: IncomingMessage): RawResponse => {
  const iterator = (incoming as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  const read = async (): Promise<Buffer | undefined> => {
    const next = await iterator.next();
    return next.done ? undefined : next.value;
  };
  return {
    status: incoming.statusCode ?? 0,
    headers: incoming.headers,
    socket: incoming.socket,
    read,
    async rest() {
      const chunks: Buffer[] = [];
      try {
        for (let chunk = await read(); chunk !== undefined; chunk = await read()) chunks.push(chunk);
        return { bytes: Buffer.concat(chunks), clean: incoming.complete };
      } catch {
        return { bytes: Buffer.concat(chunks), clean: false };
      }
    },
  };
};

/** The whole exchange: status, headers, bytes, and whether the end was clean. */
export const exchange = async (edge: Pick<EdgeUnderTest, "url" | "apiKey">, options: RawRequest = {}) => {
  const response = await open(edge, options).response;
  const { bytes, clean } = await response.rest();
  return { status: response.status, headers: response.headers, bytes, clean, text: bytes.toString("utf8") };
};

/** Reads until `bytes` bytes are there or the body ends. */
export const readBytes = async (response: RawResponse, bytes: number): Promise<Buffer> => {
  let all = Buffer.alloc(0);
  while (all.length < bytes) {
    const chunk = await response.read();
    if (chunk === undefined) break;
    all = Buffer.concat([all, chunk]);
  }
  return all;
};
