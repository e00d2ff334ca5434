/**
 * A process that starts an edge, says which processes, and waits to be killed: for the tests of what it leaves behind.
 */
import { startEdgeWorker } from "../../edge/local/edge-worker.ts";

const edge = await startEdgeWorker({ env: {} });
console.log(JSON.stringify({ pids: edge.pids }));
