import test from "ava";
import type { ServeConfig } from "../../gpu-agent/src/config/load-serve-config.ts";
import { loadServeConfig } from "../../gpu-agent/src/config/load-serve-config.ts";
import { planReload, reloadConfig } from "../../gpu-agent/src/reload.ts";

const read = (words: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  loadServeConfig({
    argv: words,
    env: { LOCKGATE_LOCAL_KEY: "local-key-0123456789", ...env },
    readFile: () => "",
    builtInModelPath: "/m.gguf",
    version: "1.0.0",
  });

const configOf = (words: readonly string[], env: Readonly<Record<string, string>> = {}): ServeConfig => {
  const result = read(words, env);
  if (!result.ok) throw new Error(result.message);
  return result.config;
};

const signingKeys = (byte: number) => ({
  LOCKGATE_SIGNING_KEYS: JSON.stringify({ edge: Buffer.alloc(32, byte).toString("base64url") }),
});

test("the same configuration changes nothing", (t) => {
  const [running, fresh] = [configOf([], signingKeys(1)), configOf([], signingKeys(1))];
  t.deepEqual(planReload(running, fresh), { config: running, changed: [], kept: [] });
});

test("what can change live takes its new value", (t) => {
  const fresh = configOf(
    ["--queue", "3", "--ready-timeout", "7", "--heal-cooldown", "8", "--write-stall-timeout", "9"].concat([
      "--drain-timeout",
      "10",
      "--log-level",
      "debug",
    ]),
    { ...signingKeys(2), LOCKGATE_LOCAL_KEY: "another-key-0123456789" },
  );
  const plan = planReload(configOf([], signingKeys(1)), fresh);
  t.deepEqual(plan.config, fresh);
  t.deepEqual(plan.kept, []);
  t.deepEqual(plan.changed.toSorted(), [
    "drainTimeoutMs",
    "healCooldownMs",
    "localKey",
    "logLevel",
    "maxWaitingTurns",
    "readyTimeoutMs",
    "signingKeys",
    "writeStallTimeoutMs",
  ]);
});

test("what needs a restart is named and keeps its value", (t) => {
  const running = configOf([]);
  const plan = planReload(running, configOf(["--port", "1", "--slots", "2", "--devices", "CPU", "--queue", "5"]));
  t.deepEqual(plan.kept, ["port", "slots", "devices"]);
  t.deepEqual(plan.changed, ["maxWaitingTurns"]);
  t.deepEqual(plan.config, { ...running, maxWaitingTurns: 5 });
});

test("every field is either live or named: none changes in silence", (t) => {
  const running = configOf([]);
  for (const field of Object.keys(running) as (keyof ServeConfig)[]) {
    const plan = planReload(running, { ...running, [field]: "something else" });
    t.deepEqual([...plan.changed, ...plan.kept], [field]);
    t.is(plan.config[field] as unknown, plan.kept.includes(field) ? running[field] : "something else");
  }
});

test("a configuration that is broken is told and changes nothing", (t) => {
  const running = configOf([]);
  const logged: unknown[] = [];
  const after = reloadConfig(
    running,
    () => read(["--port", "x"]),
    (...line) => logged.push(line),
  );
  t.is(after, running);
  t.deepEqual(logged, [
    ["error", "reload_failed", { reason: '--port is "x"; it must be a whole number from 0 to 65535' }],
  ]);
});
