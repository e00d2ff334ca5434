/**
 * How tests run: Node runs the TypeScript itself (type stripping); in processes, not worker threads, so that a time-out kills what hangs.
 *
 * The tests start hundreds of Node processes. What Node compiled is kept for the next one, which takes a third off each start.
 */
import { fileURLToPath } from "node:url";

export default {
  extensions: ["ts"],
  workerThreads: false,
  timeout: "120s",
  concurrency: 2,
  failFast: false,
  environmentVariables: {
    NODE_COMPILE_CACHE: fileURLToPath(new URL("node_modules/.cache/lockgate-compile", import.meta.url)),
  },
};
