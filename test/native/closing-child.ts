/**
 * The process (or the worker in it) that closing.test.ts ends in a state: `closing-child.ts exit|terminate|end STATE`.
 * It says "reached" when it is there.
 */
import { once } from "node:events";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import * as native from "@lockgate/native";
import { STATES } from "./closing-states.ts";
import { MODEL_PATH } from "./support.ts";

const WORKER_ROUNDS = 3;

async function reach(state: string): Promise<void> {
  const go = STATES[state];
  if (go === undefined) {
    throw new Error(`no such state: ${state}`);
  }
  await go();
}

async function terminateWorkers(state: string): Promise<void> {
  for (let round = 0; round < WORKER_ROUNDS; round++) {
    const worker = new Worker(new URL(import.meta.url), { workerData: state });
    await once(worker, "message");
    await worker.terminate();
  }
  // The addon must still work here.
  const model = await native.loadModel({ path: MODEL_PATH });
  await model.tokenize("hello");
  await model.close();
}

if (isMainThread) {
  const [mode = "", state = ""] = process.argv.slice(2);
  await (mode === "terminate" ? terminateWorkers(state) : reach(state));
  console.log("reached");
  if (mode === "exit") {
    process.exit(0);
  }
} else {
  await reach(String(workerData));
  parentPort?.postMessage("reached");
  // Stays until it is terminated.
  setInterval(() => {}, 1000);
}
