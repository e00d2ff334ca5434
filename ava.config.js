/** Node runs the TypeScript tests itself (type stripping); processes, not worker threads, so that a time-out kills what hangs. */
export default {
  extensions: ["ts"],
  workerThreads: false,
  timeout: "120s",
  concurrency: 2,
  failFast: false,
};
