import test from "ava";
import {
  addServeCommand,
  createProgram,
  runProgram,
  type ServeFlags,
} from "../../gpu-agent/src/config/command-line.ts";
import { loadServeConfig } from "../../gpu-agent/src/config/load-serve-config.ts";
import { fileKeyOf, serveOptionList, variableOf } from "../../gpu-agent/src/config/serve-options.ts";

const programWith = (onServe: (flags: ServeFlags) => void | Promise<void>) => {
  const written = { out: "", error: "" };
  const program = createProgram({
    version: "1.2.3",
    writeOut: (text) => {
      written.out += text;
    },
    writeError: (text) => {
      written.error += text;
    },
  });
  addServeCommand(program, onServe);
  return { program, written };
};

const never = (): void => {
  throw new Error("serve must not run");
};

const helpOf = async (words: readonly string[]): Promise<string> => {
  const { program, written } = programWith(never);
  await runProgram(program, words);
  return written.out;
};

test("--help of serve names every flag, its variable and its default", async (t) => {
  const help = (await helpOf(["serve", "--help"])).replaceAll(/\s+/g, " ");
  for (const { name, fallbackText } of serveOptionList) {
    t.true(help.includes(`--${name} `), name);
    t.true(help.includes(`default: ${fallbackText}; env ${variableOf(name)})`), name);
  }
  t.false(help.includes("--no-"));
});

test("the examples that --help shows are accepted", async (t) => {
  const help = await helpOf(["--help"]);
  const commands = help
    .split("\n")
    .flatMap((line) => (/^ {2}(?:\S+=\$\(.*\) )?gpu-agent (.*)$/.exec(line) ?? []).slice(1));
  t.is(commands.length, 3);
  const [, fileExample] = /looks like this:\n((?: {2}.*\n)+)/.exec(help) ?? [];
  if (fileExample === undefined) throw new Error("--help shows no file");
  for (const command of commands) {
    const result = loadServeConfig({
      argv: command.split(" "),
      env: { LOCKGATE_LOCAL_KEY: "0123456789abcdef" },
      readFile: (path) => (path.endsWith(".toml") ? fileExample : JSON.stringify({ "edge-1": "A".repeat(43) })),
      builtInModelPath: "/m/x.gguf",
      version: "1.2.3",
    });
    t.true(result.ok, result.ok ? "" : result.message);
  }
});

test("--help and --version go to standard output and end with exit code 0", async (t) => {
  for (const words of [["--help"], ["serve", "--help"], ["--version"]]) {
    const { program, written } = programWith(never);
    t.is(await runProgram(program, words), 0);
    t.not(written.out, "");
    t.is(written.error, "");
  }
  t.is(await helpOf(["--version"]), "1.2.3\n");
});

test("a wrong command line goes to standard error and ends with exit code 64", async (t) => {
  const { program, written } = programWith(never);
  t.is(await runProgram(program, ["serve", "--prot", "1"]), 64);
  t.is(written.out, "");
  t.regex(written.error, /--prot/);
});

test("serve gets the flags that were typed and no others", async (t) => {
  const seen: ServeFlags[] = [];
  const { program } = programWith((flags) => {
    seen.push(flags);
  });
  t.is(await runProgram(program, ["--port", "0", "--json", "--no-exit-with-stdin", "--config", "a.toml"]), null);
  const [flags] = seen;
  t.deepEqual(Object.fromEntries(flags ?? []), { port: "0", json: true, "exit-with-stdin": false, config: "a.toml" });
});

test("an error of the command itself is passed on", async (t) => {
  const { program } = programWith(() => Promise.reject(new Error("port in use")));
  await t.throwsAsync(runProgram(program, ["serve"]), { message: "port in use" });
});

test("other commands can be added beside serve", async (t) => {
  const { program } = programWith(never);
  let ran = false;
  program.command("replica-host").action(() => {
    ran = true;
  });
  t.is(await runProgram(program, ["replica-host"]), null);
  t.true(ran);
});

test("names of flags, variables and keys are made from one name and are unique", (t) => {
  const names = serveOptionList.map(({ name }) => name);
  t.is(new Set(names).size, names.length);
  t.is(variableOf("wire-log"), "LOCKGATE_WIRE_LOG");
  t.is(fileKeyOf("wire-log"), "wire_log");
});
