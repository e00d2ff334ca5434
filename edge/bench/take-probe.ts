/**
 * Calls a key's guard in a loop, from the worker to the object and back, as a route of ladder.ts.
 *
 * The runtime's clock moves in whole ms, so the time of one call is told as that of a group by its size.
 */
import type { Env } from "../src/env.ts";

export const PROBE_PATH = "/probe/take";
/** Calls that are timed together. */
const GROUP = 10;

interface Probe {
  readonly keyId: string;
  readonly secretSha256: string;
  readonly groups: number;
}

/** ms of one take in each group. Each request is released again; the releases are not timed. */
const timeTakes = async (env: Env, { keyId, secretSha256, groups }: Probe): Promise<number[]> => {
  const guard = env.KEY_GUARDS.getByName(keyId);
  const times: number[] = [];
  for (let group = 0; group < groups; group += 1) {
    const ids = Array.from({ length: GROUP }, (_, index) => `req_probe_${group}_${index}`);
    const beganMs = performance.now();
    for (const requestId of ids) {
      const verdict = await guard.take({ secretSha256, requestId, scope: "chat", model: "m", estimatedTokens: 10 });
      if (verdict.kind === "refused") throw new Error(`refused: ${verdict.cause}`);
    }
    times.push((performance.now() - beganMs) / GROUP);
    for (const requestId of ids) await guard.release({ requestId, agent: null });
  }
  return times;
};

/** Takes `{keyId, secretSha256, groups}` and answers with the list of times. */
export const answerProbe = async (request: Request, env: Env): Promise<Response> =>
  Response.json(await timeTakes(env, await request.json<Probe>()));
