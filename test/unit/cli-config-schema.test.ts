import { readFileSync } from "node:fs";
import test from "ava";
import { parse } from "smol-toml";
import { configSchema } from "../../gpu-agent/src/cli/config-schema.ts";
import { exitCodeHelp, exitCodeRows } from "../../gpu-agent/src/cli/exit-code-help.ts";
import { exitCodes } from "../../gpu-agent/src/config/exit-codes.ts";
import { loadServeConfig } from "../../gpu-agent/src/config/load-serve-config.ts";
import { fileKeyOf, serveOptionList, variableOf } from "../../gpu-agent/src/config/serve-options.ts";

const load = (argv: readonly string[], file: string) =>
  loadServeConfig({
    argv: ["serve", ...argv],
    env: { LOCKGATE_LOCAL_KEY: "0123456789abcdef" },
    readFile: () => file,
    builtInModelPath: "/m/built-in.gguf",
    version: "0",
  });

test("the printed file parses, and changes no default", (t) => {
  t.deepEqual(load(["--config", "printed.toml"], configSchema()), load([], ""));
  t.true(load([], "").ok);
});

test("the printed file has each option's key, meaning, kind, default, flag and variable", (t) => {
  const printed = configSchema();
  for (const { name, help, expected, fallbackText } of serveOptionList) {
    t.regex(printed, new RegExp(`^(# )?${fileKeyOf(name).replace(".", "\\.")} = \\S`, "m"), name);
    for (const part of [`# ${help}\n`, expected, `default: ${fallbackText};`, `--${name}`, variableOf(name)]) {
      t.true(printed.includes(part), `${name}: ${part}`);
    }
  }
});

test("every key that has a default stands there with it, and the others are comments", (t) => {
  const values = parse(configSchema());
  for (const option of serveOptionList) {
    const key = fileKeyOf(option.name);
    const shown = option.schema.safeParse(option.fallback).success;
    t.is(Object.hasOwn(values, key), shown, key);
    if (shown) t.deepEqual(values[key], option.fallback, key);
  }
  t.deepEqual(values.auth, {});
});

test("--help and the README say what each exit code means, and no other", (t) => {
  t.deepEqual(
    exitCodeRows()
      .map(([code]) => Number(code))
      .toSorted((a, b) => a - b),
    Object.values(exitCodes).toSorted((a, b) => a - b),
  );
  const readme = readFileSync(new URL("../../gpu-agent/README.md", import.meta.url), "utf8");
  const rows = [...readme.matchAll(/^\| (\d+) +\| (.*?) +\|$/gm)].map(([, code = "", meaning = ""]) => [code, meaning]);
  t.deepEqual(rows, exitCodeRows());
  for (const [code, meaning] of exitCodeRows()) t.regex(exitCodeHelp(), new RegExp(`^ +${code} +${meaning}$`, "m"));
});
