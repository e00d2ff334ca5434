import test from "ava";
import { efforts, MAX_CONNECTION_COUNTS, MAX_CONNECTIONS } from "../../gpu-agent/src/bench/serve-plan.ts";
import { type BenchServeValues, benchServeOptions, servedWords } from "../../gpu-agent/src/cli/bench.ts";
import { takeCommandOptions } from "../../gpu-agent/src/cli/command-options.ts";
import { loadServeConfig } from "../../gpu-agent/src/config/load-serve-config.ts";
import { LOCAL_KEY_VARIABLE } from "../../gpu-agent/src/config/secrets.ts";

const take = (flags: Record<string, string | boolean>, env: Record<string, string> = {}) =>
  takeCommandOptions("bench-serve", benchServeOptions, new Map(Object.entries(flags)), env);

const values = (flags: Record<string, string | boolean> = {}): BenchServeValues => {
  const taken = take(flags);
  if (!taken.ok) throw new Error(taken.message);
  return taken.values;
};

test("connections are a list of numbers, blanks or not", (t) => {
  t.deepEqual(values({ connections: "1,4, 16" }).connections, [1, 4, 16]);
  t.deepEqual(values({ connections: String(MAX_CONNECTIONS) }).connections, [MAX_CONNECTIONS]);
  const most = Array.from({ length: MAX_CONNECTION_COUNTS }, (_, at) => at + 1);
  t.deepEqual(values({ connections: most.join() }).connections, most);
});

test("connections that are none, too many, twice the same or no number are refused in words", (t) => {
  const many = Array.from({ length: MAX_CONNECTION_COUNTS + 1 }, (_, at) => at + 1).join();
  for (const connections of ["0", "-1", String(MAX_CONNECTIONS + 1), "1.5", "4,4", "1,,2", "", "all", many]) {
    const taken = take({ connections });
    t.false(taken.ok, connections);
    if (taken.ok) continue;
    t.is(taken.exitCode, 64);
    t.regex(taken.message, /^--connections is .*; it must be up to 16 different numbers from 1 to 256 with commas/);
  }
});

test("a bad variable is named, and is a fault of the configuration", (t) => {
  const taken = take({}, { LOCKGATE_BENCH_SERVE_ROUNDS: "0" });
  t.like(taken, { ok: false, exitCode: 78 });
  if (!taken.ok) t.regex(taken.message, /^LOCKGATE_BENCH_SERVE_ROUNDS is 0; it must be a whole number from 1 to 1000/);
});

test("what was not said is left to the effort", (t) => {
  t.like(values(), { connections: undefined, rounds: undefined, tokens: undefined, quick: false, json: undefined });
  t.deepEqual(efforts.full.connections, [1, 4, 16, 64, 256]);
  t.true(efforts.quick.connections.every((count) => count <= MAX_CONNECTIONS));
});

test("the measured agent's queue has room for every connection, so none is refused", (t) => {
  const words = servedWords(values({ slots: "4", replicas: "2" }), [1, 256, 16], "/m/built-in.gguf");
  const resolved = loadServeConfig({
    argv: words,
    env: { [LOCAL_KEY_VARIABLE]: "k".repeat(32) },
    readFile: () => {
      throw new Error("no file is read");
    },
    builtInModelPath: "/m/built-in.gguf",
    version: "0",
  });
  t.true(resolved.ok);
  if (!resolved.ok) return;
  t.like(resolved.config, { modelPath: "/m/built-in.gguf", slots: 4, replicas: 2, maxWaitingTurns: 256 });
});

test("what was said of the model and its slots reaches the agent, and no key is among its words", (t) => {
  const words = servedWords(values({ model: "./m.gguf", context: "512", threads: "2" }), [1], "/m/built-in.gguf");
  t.deepEqual(words, [
    ...["serve", "--model", "./m.gguf", "--replicas", "1", "--slots", "1", "--queue", "1"],
    ...["--context", "512", "--threads", "2"],
  ]);
});
