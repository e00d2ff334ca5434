/**
 * Runs one planned client on a socket of its own: writes its requests, reads as the plan says, goes away where it says so. What it saw is
 * told as it is; whether that was right is judge-answers.ts's.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { connect, type Socket } from "node:net";
import { contentDigest, encodeNonce, importSigningKey, NONCE_BYTES, signRequest } from "@lockgate/shared-types";
import type { ClientPlan, RequestPlan } from "./client-plans.ts";
import { type ReadResponse, ResponseReader } from "./response-reader.ts";
import { CLIENT_LIMIT_MS } from "./soak-limits.ts";

/** Whom the clients talk to, and with which keys. */
export interface Target {
  readonly url: string;
  readonly localKey: string;
  readonly signing: { readonly keyId: string; readonly secret: Uint8Array<ArrayBuffer> };
}

export interface ClientEnd {
  /** In the order of the requests; the last may be incomplete, later ones are missing. */
  readonly responses: readonly ReadResponse[];
  /** Requests that were written in whole. */
  readonly sent: number;
  /** `read`: every answer came. `left`: the client went, as planned. `lost`: the connection ended before. `hung`: it had to be given up. */
  readonly how: "read" | "left" | "lost" | "hung" | "not http";
}

const TENANT_SALTS = ["00", "a1", "b2"].map((byte) => byte.repeat(8));
const API_KEY_ID = "soak-key";

const credentials = async (plan: RequestPlan, target: Target): Promise<readonly (readonly [string, string])[]> => {
  if (plan.caller === "nobody") return [];
  if (plan.caller === "stranger") return [["authorization", "Bearer a-key-that-nobody-has"]];
  if (plan.caller === "local") {
    const deadline = plan.deadlineS === undefined ? [] : [["x-stainless-timeout", String(plan.deadlineS)] as const];
    return [["authorization", `Bearer ${target.localKey}`], ...deadline];
  }
  return signRequest(
    {
      method: plan.method,
      url: `${target.url}${plan.path}`,
      contentDigest: await contentDigest(new TextEncoder().encode(plan.body)),
      lockgate: {
        requestId: `req_${randomUUID()}`,
        keyId: API_KEY_ID,
        tenantSalt: TENANT_SALTS[plan.tenant] ?? "0".repeat(16),
        ...(plan.deadlineS === undefined ? {} : { deadlineMs: Math.floor(Date.now() + plan.deadlineS * 1000) }),
      },
    },
    await importSigningKey(target.signing.keyId, target.signing.secret),
    Date.now(),
    encodeNonce(randomBytes(NONCE_BYTES)),
  );
};

const headOf = async (plan: RequestPlan, target: Target): Promise<string> => {
  const fields = [
    ["host", new URL(target.url).host] as const,
    ...(await credentials(plan, target)),
    ...(plan.method === "POST"
      ? [
          ["content-type", "application/json"] as const,
          ["content-length", String(Buffer.byteLength(plan.body))] as const,
        ]
      : []),
  ];
  return `${plan.method} ${plan.path} HTTP/1.1\r\n${fields.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`;
};

/** Goes away: a reset, or, where everything was read, a FIN. */
const leave = (socket: Socket, how: "reset" | "close"): void => {
  if (how === "reset") socket.resetAndDestroy();
  else socket.destroy();
};

/** Runs the client to its end, within a bound. Never rejects. */
export const runClient = async (plan: ClientPlan, target: Target): Promise<ClientEnd> => {
  const { behaviour, requests } = plan;
  const reader = new ResponseReader();
  const over = Promise.withResolvers<ClientEnd["how"]>();
  const timers = new Set<NodeJS.Timeout>();
  const after = (ms: number, run: () => void) => {
    const timer = setTimeout(() => {
      timers.delete(timer);
      run();
    }, ms);
    timers.add(timer);
  };
  const { hostname, port } = new URL(target.url);
  const socket = connect({ host: hostname, port: Number(port) });
  let sent = 0;
  let lastHead = "";

  const write = async (): Promise<void> => {
    const request = requests[sent];
    if (request === undefined) return;
    if (request.caller !== "replay") lastHead = await headOf(request, target);
    if (socket.destroyed) return;
    if (behaviour.kind === "cuts") {
      const body = Buffer.from(request.body).subarray(0, behaviour.bodyBytes);
      socket.write(lastHead);
      socket.write(body, () => {
        over.resolve("left");
        socket.resetAndDestroy();
      });
      return;
    }
    sent++;
    socket.write(lastHead + request.body);
    if (plan.pipelined) await write();
  };
  const go = (how: "reset" | "close") => {
    over.resolve("left");
    leave(socket, how);
  };
  let nextBreak = behaviour.kind === "slow" ? behaviour.everyBytes : Number.POSITIVE_INFINITY;
  const look = () => {
    if (behaviour.kind === "leaves") {
      const { at, how } = behaviour;
      const isDue = at.kind === "bytes" ? reader.bodyBytes >= at.bytes : at.kind === "head" && reader.all().length > 0;
      if (isDue) return go(how);
    }
    if (reader.complete.length === requests.length) {
      over.resolve("read");
      return void socket.destroy();
    }
    if (behaviour.kind === "stalls" && reader.bodyBytes >= behaviour.afterBytes) {
      socket.pause();
      return after(behaviour.holdMs, () => go("reset"));
    }
    if (behaviour.kind === "slow" && reader.bodyBytes >= nextBreak) {
      nextBreak = reader.bodyBytes + behaviour.everyBytes;
      socket.pause();
      after(behaviour.pauseMs, () => socket.resume());
    }
    if (!plan.pipelined && reader.complete.length === sent && sent > 0) write().catch(() => over.resolve("lost"));
  };
  socket.on("connect", () => {
    write().catch(() => over.resolve("lost"));
    if (behaviour.kind === "leaves" && behaviour.at.kind === "sent") after(behaviour.at.ms, () => go(behaviour.how));
  });
  socket.on("data", (bytes: Buffer) => {
    try {
      reader.push(bytes);
    } catch {
      over.resolve("not http");
      socket.destroy();
      return;
    }
    look();
  });
  socket.on("error", () => {}); // told by the close
  socket.on("close", () => over.resolve("lost"));
  after(CLIENT_LIMIT_MS, () => {
    over.resolve("hung");
    socket.destroy();
  });
  const how = await over.promise;
  for (const timer of timers) clearTimeout(timer);
  return { responses: reader.all(), sent, how };
};
