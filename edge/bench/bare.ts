/**
 * The least that a worker between client and agent can do: it hands the request on and the answer back, headers and all. What the edge is
 * measured against (test/bench/edge.ts); never deployed.
 *
 * It has the edge's compatibility flags and, since the local edge binds them, classes of the same names that are never used.
 */
import { DurableObject } from "cloudflare:workers";

interface Bindings {
  /** JSON, as the edge has it; the first one's URL is where requests go. */
  readonly AGENTS: string;
}

export class KeyGuard extends DurableObject {}
export class Fleet extends DurableObject {}

let upstream: string | undefined;

export default {
  async fetch(request: Request, env: Bindings): Promise<Response> {
    upstream ??= (JSON.parse(env.AGENTS) as { url: string }[])[0]?.url;
    const { pathname, search } = new URL(request.url);
    const response = await fetch(`${upstream}${pathname}${search}`, request);
    return new Response(response.body, response);
  },
};
