/**
 * An agent stand-in on a free loopback port: it does, per request, exactly what a test's script says, and records what it saw.
 *
 * It holds no model and no queue. Like a real agent it verifies signatures (unless told not to), keeps idle connections for 75 s
 * and can send keep-alive comments.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { RequestVerifier } from "../../gpu-agent/src/auth/verify-request.ts";

/** Less would race with the edge's own reuse of connections. */
const KEEP_ALIVE_TIMEOUT_MS = 75_000;
export const keepAliveComment = ": keep-alive\n\n";

export interface RecordedRequest {
  readonly method: string;
  /** The request target as it came. */
  readonly url: string;
  /** Field lines as they came, names in lower case. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Buffer;
  /** Settles when the connection ended before the script's answer did. */
  readonly aborted: Promise<void>;
}

/** The script's side of one response. */
export interface Reply {
  /** Sends status and headers at once. */
  head(status: number, headers?: Readonly<Record<string, string>>): void;
  /** Sends these bytes as one chunk of their own; settles when they left the process. */
  write(bytes: string | Uint8Array): Promise<void>;
  /** The clean end. */
  end(): void;
  /** Dies: a reset on the wire. */
  reset(): void;
  /** Dies the other way: the connection just closes, with no end of the body. */
  close(): void;
  /** Sends keep-alive comments until the connection ends. */
  keepAliveEvery(periodMs: number): void;
}

export type Script = (reply: Reply, request: RecordedRequest) => void | Promise<void>;

export interface ScriptedAgent {
  readonly url: string;
  readonly requests: RecordedRequest[];
  /** The verifier's refusals. */
  readonly refusals: string[];
  /** What the next requests get. */
  script: Script;
  stop(): Promise<void>;
}

/** A small complete answer. */
export const answerOk: Script = async (reply) => {
  reply.head(200, { "content-type": "application/json" });
  await reply.write('{"ok":true}');
  reply.end();
};

const replyOver = (response: ServerResponse): Reply => ({
  head(status, headers = {}) {
    response.writeHead(status, headers);
    response.flushHeaders();
  },
  write: (bytes) =>
    new Promise((resolve, reject) => {
      response.write(bytes, (error) => (error ? reject(error) : resolve()));
    }),
  end: () => {
    response.end();
  },
  reset: () => {
    response.socket?.resetAndDestroy();
  },
  close: () => {
    response.socket?.destroy();
  },
  keepAliveEvery(periodMs) {
    const timer = setInterval(() => response.write(keepAliveComment), periodMs);
    response.once("close", () => clearInterval(timer));
  },
});

const record = async (request: IncomingMessage, response: ServerResponse): Promise<RecordedRequest> => {
  const aborted = Promise.withResolvers<void>();
  response.once("close", () => {
    if (!response.writableFinished) aborted.resolve();
  });
  const headers: [string, string][] = [];
  for (let index = 0; index + 1 < request.rawHeaders.length; index += 2) {
    headers.push([request.rawHeaders[index]?.toLowerCase() ?? "", request.rawHeaders[index + 1] ?? ""]);
  }
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return {
    method: request.method ?? "",
    url: request.url ?? "",
    headers,
    body: Buffer.concat(chunks),
    aborted: aborted.promise,
  };
};

/** Starts one. With a verifier a request that it refuses gets 401 and never reaches the script. */
export const startScriptedAgent = async (verifier?: RequestVerifier): Promise<ScriptedAgent> => {
  const agent = { requests: [] as RecordedRequest[], refusals: [] as string[], script: answerOk };

  const serve = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    response.socket?.setNoDelay(true);
    const request = await record(incoming, response);
    agent.requests.push(request);
    if (verifier !== undefined) {
      const head = await verifier.verifyHead(request.method, request.url, request.headers);
      const refusal = head.ok
        ? verifier.verifyBody(head.contentDigest, request.body)
          ? undefined
          : "body"
        : head.reason;
      if (refusal !== undefined) {
        agent.refusals.push(refusal);
        response.writeHead(401).end();
        return;
      }
    }
    await agent.script(replyOver(response), request);
  };

  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS }, (incoming, response) => {
    // A connection that a test cut is that test's business; anything else shows as a request that is never answered.
    response.on("error", () => undefined);
    serve(incoming, response).catch(() => response.socket?.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return Object.assign(agent, {
    url: `http://127.0.0.1:${port}`,
    async stop() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  });
};
