/**
 * Verifies what an agent sends of its own accord (heartbeats, usage records): signed as the edge's requests are, the other way round, with
 * the agent's name where the API key's id stands.
 *
 * A stranger makes nobody buffer anything and reaches no object: the signature is judged before the body is read, the nonce is taken last.
 * Every refusal is the same 401 outside; `cause` is for the log. It does not look into the body.
 */

import { contentDigest, createHeadJudge, type MacCheck, refusalOfNonce } from "@lockgate/shared-types";
import { causeOf } from "../cause-of.ts";
import type { Config } from "../config.ts";
import type { Env } from "../env.ts";
import type { Agent } from "../fleet/agents-config.ts";
import { fleetOf } from "../fleet/fleet-object.ts";
import { codeOfBodyFault, readBody } from "../upstream/read-body.ts";

/** A batch of usage records has about 100 KiB; an agent that sends no faster than this is as good as gone. */
const MESSAGE_READ_TIMEOUT_MS = 15_000;

export type AgentMessage =
  | { readonly ok: true; readonly agent: Agent; readonly bytes: Uint8Array<ArrayBuffer> }
  | {
      readonly ok: false;
      readonly code: "invalid_signature" | "request_too_large" | "deadline_exceeded" | "invalid_value" | "overloaded";
      readonly cause: string;
    };

const unsigned = (cause: string): AgentMessage => ({ ok: false, code: "invalid_signature", cause });

/** Judges one message. Rejects only for a fault of ours. */
export const verifyAgentMessage = async (
  request: Request,
  env: Pick<Env, "FLEET">,
  config: Pick<Config, "agents">,
): Promise<AgentMessage> => {
  const keys = config.agents.flatMap((agent) => agent.keys);
  const checks = new Map(keys.map(({ keyId, verify }) => [keyId, verify satisfies MacCheck] as const));
  const head = await createHeadJudge(checks)(request.method, request.url, request.headers, Date.now());
  if (!head.ok) return unsigned(head.detail === "" ? head.reason : `${head.reason}: ${head.detail}`);
  const agent = config.agents.find(({ name }) => name === head.lockgate.keyId);
  // One agent must not speak for another.
  if (!agent?.keys.some(({ keyId }) => keyId === head.keyId)) return unsigned("another_agent");

  const body = await readBody(request, MESSAGE_READ_TIMEOUT_MS);
  if (body.kind !== "read") return { ok: false, code: codeOfBodyFault[body.kind], cause: body.kind };
  if ((await contentDigest(body.bytes)) !== head.contentDigest) return unsigned("bad_digest");

  let verdict: Awaited<ReturnType<ReturnType<typeof fleetOf>["takeNonce"]>>;
  try {
    verdict = await fleetOf(env).takeNonce(head.nonce, head.createdS);
  } catch (error) {
    return { ok: false, code: "overloaded", cause: causeOf(error) };
  }
  if (verdict !== "taken") return unsigned(refusalOfNonce(verdict).reason);
  return { ok: true, agent, bytes: body.bytes };
};
