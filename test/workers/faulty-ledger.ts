/**
 * The real worker with a ledger and guards that fail when a test says so, while it takes usage records: an entry for a local workerd.
 *
 * POST /test/faults {"nth": N, "when": "before" | "after"} lets the N-th call of ledger and guards together fail, from then on counted, before
 * or after it did what was asked; GET /test/faults tells how many calls there were and whether one has failed.
 */
import { USAGE_PATH } from "@lockgate/shared-types";
import worker, { Fleet, KeyGuard } from "../../edge/src/worker.ts";

type When = "before" | "after";
const plan: { nth: number; when: When; calls: number; failed: boolean } = {
  nth: 0,
  when: "before",
  calls: 0,
  failed: false,
};

/** Counts one call and lets it fail if it is its turn. */
const faulty = async <T>(call: () => Promise<T>): Promise<T> => {
  plan.calls += 1;
  const fails = plan.calls === plan.nth;
  if (fails) plan.failed = true;
  if (fails && plan.when === "before") throw new Error("scripted fault");
  const result = await call();
  if (fails) throw new Error("scripted fault");
  return result;
};

interface Bindings {
  readonly LEDGER: { prepare(sql: string): unknown; batch(statements: unknown[]): Promise<unknown> };
  readonly KEY_GUARDS: {
    idFromName(name: string): unknown;
    get(id: unknown): { settle(settlement: unknown): Promise<unknown> };
  };
}

let wrapped: { readonly of: Bindings; readonly env: object } | undefined;

const withFaults = (env: Bindings): object => {
  if (wrapped?.of === env) return wrapped.env;
  const { LEDGER, KEY_GUARDS } = env;
  const faultyEnv = {
    ...env,
    LEDGER: {
      prepare: (sql: string) => LEDGER.prepare(sql),
      batch: (statements: unknown[]) => faulty(() => LEDGER.batch(statements)),
    },
    KEY_GUARDS: {
      idFromName: (name: string) => KEY_GUARDS.idFromName(name),
      get: (id: unknown) => ({ settle: (settlement: unknown) => faulty(() => KEY_GUARDS.get(id).settle(settlement)) }),
    },
  };
  wrapped = { of: env, env: faultyEnv };
  return faultyEnv;
};

export { Fleet, KeyGuard };
export default {
  async fetch(request: Request, env: Bindings, context: Parameters<typeof worker.fetch>[2]): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname === "/test/faults") {
      if (request.method === "POST") Object.assign(plan, { calls: 0, failed: false }, await request.json());
      return Response.json(plan);
    }
    return worker.fetch(request, pathname === USAGE_PATH ? withFaults(env) : env, context);
  },
};
