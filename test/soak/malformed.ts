/**
 * `npm run malformed`: sends 100,000 malformed requests to a real edge, or so many as --count says, and tells in JSON what came of them. Ends
 * with 1 if any got in or got an answer that it should not get, if an object was made, or if memory grew beyond its bound.
 */
import { parseArgs } from "node:util";
import { startEdgeUnderTest } from "../helpers/edge-worker.ts";
import { isClean, runMalformed } from "../helpers/malformed/run-malformed.ts";
import { pickSeed } from "../helpers/seeded-random.ts";

const { values } = parseArgs({ options: { count: { type: "string", default: "100000" }, seed: { type: "string" } } });
const seed = values.seed === undefined ? pickSeed() : Number(values.seed);
const count = Number(values.count);
if (!Number.isSafeInteger(count) || count < 1 || !Number.isSafeInteger(seed)) {
  console.error("--count and --seed are whole numbers");
  process.exit(64);
}
const edge = await startEdgeUnderTest();
try {
  const report = await runMalformed(edge, seed, count);
  console.log(JSON.stringify({ seed, ...report }));
  process.exitCode = isClean(report, count) ? 0 : 1;
} finally {
  await edge.stop();
}
