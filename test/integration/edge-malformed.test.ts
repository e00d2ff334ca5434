/**
 * A share of what `npm run malformed` sends, with the same code: that command sends 100,000. What is printed repeats a run.
 */
import test from "ava";
import { startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { isClean, MAX_RESIDENT_BYTES, runMalformed } from "../helpers/malformed/run-malformed.ts";
import { pickSeed } from "../helpers/seeded-random.ts";

const REQUESTS = 10_000;

const edge = await startEdgeUnderTest();
test.after.always(() => edge.stop());

test("of 10,000 malformed requests none gets in, none gets a 5xx, no object is made, and memory stays bounded", async (t) => {
  t.timeout(600_000, "the requests");
  const seed = pickSeed();
  t.log(`LOCKGATE_SEED=${seed}`);
  const report = await runMalformed(edge, seed, REQUESTS);
  t.log(JSON.stringify(report));
  t.deepEqual(report.faults, []);
  t.is(report.sent, REQUESTS);
  t.is(report.reached, 0);
  t.deepEqual(report.after, report.before);
  t.true(report.endBytes < MAX_RESIDENT_BYTES, `${report.warmBytes} to ${report.endBytes}`);
  t.true(isClean(report, REQUESTS));
  // The edge still serves.
  t.is((await fetch(`${edge.url}/v1/models`, { headers: { authorization: `Bearer ${edge.apiKey}` } })).status, 200);
});
