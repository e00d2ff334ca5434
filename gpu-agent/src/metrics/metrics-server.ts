/**
 * `GET /metrics` on a port of its own, for a scraper that holds no key. Nothing else is served there, and nothing is asked for: who can
 * reach the address can read, so it is loopback unless the operator says otherwise.
 */
import { createServer } from "node:http";
import { listen } from "../http/listen.ts";
import type { AgentMetrics } from "./agent-metrics.ts";

export type MetricsServer =
  | { readonly ok: true; readonly url: string; readonly close: () => void }
  /** Why it could not listen, for the person at the terminal. */
  | { readonly ok: false; readonly message: string };

/** Listens; port 0 takes a free one. */
export const openMetricsServer = async (
  metrics: Pick<AgentMetrics, "text" | "contentType">,
  host: string,
  port: number,
): Promise<MetricsServer> => {
  const server = createServer((request, response) => {
    const path = request.url?.split("?")[0];
    const status = path !== "/metrics" ? 404 : request.method === "GET" || request.method === "HEAD" ? 200 : 405;
    if (status !== 200) {
      response.writeHead(status, { "content-type": "text/plain", ...(status === 405 ? { allow: "GET, HEAD" } : {}) });
      response.end(status === 404 ? "Metrics are at /metrics.\n" : "/metrics takes GET.\n");
      return;
    }
    metrics.text().then(
      (text) => response.writeHead(200, { "content-type": metrics.contentType }).end(text),
      () => response.writeHead(500).end(),
    );
  });
  try {
    const url = await listen(server, host, port);
    const close = () => {
      server.closeAllConnections();
      server.close();
    };
    return { ok: true, url: `${url}/metrics`, close };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const how = "check --metrics-host and --metrics-port";
    return { ok: false, message: `cannot listen for metrics on ${host}:${port} (${code ?? message}); ${how}` };
  }
};
