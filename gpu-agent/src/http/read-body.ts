/** Reads a request's body within a bound. Nothing else: the digest and the JSON are others' business. */
import type { IncomingMessage } from "node:http";
import { MAX_BODY_BYTES } from "@lockgate/shared-types";

export type BodyRead =
  | { readonly ok: true; readonly bytes: Buffer }
  | { readonly ok: false; readonly why: "too_large" | "cut_short" };

export const readBody = async (incoming: IncomingMessage): Promise<BodyRead> => {
  if (Number(incoming.headers["content-length"] ?? 0) > MAX_BODY_BYTES) return { ok: false, why: "too_large" };
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of incoming as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > MAX_BODY_BYTES) return { ok: false, why: "too_large" };
      chunks.push(chunk);
    }
  } catch {
    return { ok: false, why: "cut_short" };
  }
  return { ok: true, bytes: chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks) };
};
