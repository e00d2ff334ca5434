/** Disposing of decoders and models in every state, in a process of its own, so that a crash shows as its end. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { z } from "zod";
import { linuxTest } from "../helpers/linux-test.ts";
import { pickSeed } from "../helpers/seeded-random.ts";
import { type ChildOptions, runNode } from "./child.ts";
import { buildSanitized } from "./sanitized-addon.ts";

const child = new URL("dispose-child.ts", import.meta.url).pathname;
const STATES = 10;
const DISPOSALS = 1000;
/** The sanitizer makes each take some ten times as long. */
const SANITIZED_DISPOSALS = 60;
/** A build of the addon; the rest is the disposals'. */
const SANITIZED_TIMEOUT_MS = 300_000;

const directory = mkdtempSync(join(tmpdir(), "lockgate-dispose-"));
test.after.always(() => rmSync(directory, { recursive: true, force: true }));

const reportSchema = z.object({ disposals: z.number(), met: z.record(z.string(), z.number()) });

const disposeAll = (t: ExecutionContext, disposals: number, module: string[] = [], options: ChildOptions = {}) => {
  const seed = pickSeed();
  t.log(`LOCKGATE_SEED=${seed}`);
  const { code, signal, stdout, stderr } = runNode([child, String(disposals), String(seed), ...module], options);
  t.deepEqual({ code, signal, stderr }, { code: 0, signal: null, stderr: "" });
  const { met, disposals: done } = reportSchema.parse(JSON.parse(stdout));
  t.is(done, disposals);
  t.deepEqual(Object.values(met), Array<number>(STATES).fill(disposals / STATES), stdout);
};

test.serial("field report 30: 1,000 disposals over every state crash nothing, and every turn gets its end", (t) => {
  disposeAll(t, DISPOSALS);
});

linuxTest(
  "field report 30: disposals in every state show AddressSanitizer no fault",
  "LD_PRELOAD and g++'s sanitizer",
  (t) => {
    t.timeout(SANITIZED_TIMEOUT_MS);
    const sanitized = buildSanitized(directory);
    if (sanitized === undefined) {
      t.log("not run: g++ has no AddressSanitizer here");
      t.pass();
    } else disposeAll(t, SANITIZED_DISPOSALS, [sanitized.module], { env: sanitized.env });
  },
);
