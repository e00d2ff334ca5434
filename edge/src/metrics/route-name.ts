/** What a request's path is called in metrics: one of a few words, whatever a client asks for. Pure. */
import { HEARTBEAT_PATH, USAGE_PATH } from "@lockgate/shared-types";

/** The path that is scraped. */
export const METRICS_PATH = "/metrics";

const exact: ReadonlyMap<string, string> = new Map([
  ["/healthz", "healthz"],
  [METRICS_PATH, "metrics"],
  ["/v1/chat/completions", "chat"],
  ["/v1/models", "models"],
  [HEARTBEAT_PATH, "heartbeat"],
  [USAGE_PATH, "usage"],
]);

export const routeName = (path: string): string => {
  const name = exact.get(path);
  if (name !== undefined) return name;
  if (path.startsWith("/v1/models/")) return "models";
  return path.startsWith("/admin/") ? "admin" : "other";
};

/** `2xx` and so on. */
export const statusClass = (status: number): string => `${Math.floor(status / 100)}xx`;
