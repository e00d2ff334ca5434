/**
 * What an agent's status means to the edge. Pure.
 *
 * An agent itself answers 200, 400, 401, 404, 405, 408, 413, 429, 500 and 503, in JSON or as an event stream. Everything else comes from
 * something that stands in front of it, such as a tunnel: its page names hosts and is never passed on.
 */
import type { AgentOutcome } from "../fleet/fleet-view.ts";

/**
 * answer: the client gets it. busy: its queue is full. refusing: it takes no turn now; nothing was generated. unknown_key: it does not take
 * the signature. misled: somebody else answered. not_reached: somebody in front of it could not reach it.
 */
export type StatusVerdict = "answer" | "busy" | "refusing" | "unknown_key" | "misled" | "not_reached";

/** What an agent itself answers with, but for 401, 429 and 503. */
const ownStatuses: ReadonlySet<number> = new Set([200, 400, 404, 405, 408, 413, 500]);

export const judgeStatus = (status: number): StatusVerdict => {
  if (status === 401) return "unknown_key";
  if (status === 429) return "busy";
  if (status === 503) return "refusing";
  // 52x and 530: Cloudflare did not reach the origin, or its tunnel.
  if (status === 502 || status === 504 || (status >= 520 && status <= 530)) return "not_reached";
  // The rest is not the agent's: a login page of Cloudflare Access is a redirect, a token that it does not take a 403.
  return ownStatuses.has(status) ? "answer" : "misled";
};

/** As judgeStatus, for a response of that content type: what no agent sends is somebody else's, whatever its status. */
export const judgeAnswer = (status: number, contentType: string | null): StatusVerdict => {
  const verdict = judgeStatus(status);
  const isOurs = ["application/json", "text/event-stream"].includes(contentType?.split(";")[0]?.trim() ?? "");
  return ["answer", "busy", "refusing"].includes(verdict) && !isOurs ? "misled" : verdict;
};

/** What a status that is no stream's says about the agent's health: 5xx is a failure, the caller's own fault is none. */
export const outcomeOfStatus = (status: number): AgentOutcome => {
  if (status >= 500) return "failure";
  return ["unknown_key", "misled"].includes(judgeStatus(status)) ? "unknown" : "success";
};
