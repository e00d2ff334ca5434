/**
 * Sends one signed attempt to one agent and waits, for a bounded time, for the response headers.
 *
 * It reads no body and never retries. `clientSignal` stays wired to the response's body after the headers came: a client that
 * goes away closes the agent's socket, which is what stops the GPU.
 */
import { type LockgateHeaders, signRequest } from "@lockgate/shared-types";
import type { Agent } from "../config.ts";

/** A request in the form in which it can be sent more than once. */
export interface UpstreamRequest {
  readonly method: string;
  /** Path and query, as the client sent them. */
  readonly target: string;
  readonly accept: string | null;
  /** The caller's trace context, outside the signature: it says nothing about who may do what. */
  readonly trace: readonly (readonly [name: string, value: string])[];
  /** Empty, and not sent, unless the method is POST. */
  readonly body: Uint8Array<ArrayBuffer>;
  readonly contentDigest: string;
  readonly lockgate: LockgateHeaders;
}

export type AttemptResult =
  | { readonly kind: "answered"; readonly response: Response }
  | { readonly kind: "timed_out" | "client_gone" }
  /** The connection was refused or ended before any header: the only case in which another agent may be asked. */
  | { readonly kind: "failed"; readonly cause: string };

/** Tries `agent` once; `nonce` must be fresh. */
export const attempt = async (
  agent: Agent,
  request: UpstreamRequest,
  clientSignal: AbortSignal,
  headersTimeoutMs: number,
  nowMs: number,
  nonce: string,
): Promise<AttemptResult> => {
  const url = `${agent.url}${request.target}`;
  const headers = new Headers(await signRequest({ ...request, url }, agent.signingKey, nowMs, nonce));
  headers.set("accept-encoding", "identity");
  if (request.accept !== null) headers.set("accept", request.accept);
  for (const [name, value] of request.trace) headers.set(name, value);
  const isPost = request.method === "POST";
  if (isPost) headers.set("content-type", "application/json");

  const timeout = new AbortController();
  const timer = setTimeout(() => timeout.abort(), headersTimeoutMs);
  try {
    const response = await fetch(url, {
      method: request.method,
      headers,
      body: isPost ? request.body : null,
      // A redirect would carry the signed request to wherever the agent says.
      redirect: "manual",
      signal: AbortSignal.any([clientSignal, timeout.signal]),
    });
    return { kind: "answered", response };
  } catch (error) {
    if (clientSignal.aborted) return { kind: "client_gone" };
    if (timeout.signal.aborted) return { kind: "timed_out" };
    return { kind: "failed", cause: error instanceof Error ? error.message : "unknown" };
  } finally {
    clearTimeout(timer);
  }
};
