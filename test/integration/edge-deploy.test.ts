/** The edge's deployment as far as this machine can tell: its environments, the bundles that would be uploaded, the commands of its README. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import test from "ava";
import { z } from "zod";
import { startEdgeWorker } from "../../edge/local/edge-worker.ts";
import { readWranglerConfig } from "../../edge/local/wrangler-config.ts";
import { adminClient } from "../helpers/admin-client.ts";
import { runAgentCommand } from "../helpers/agent-command.ts";
import { startScript } from "../helpers/processes.ts";
import { markdownExamples } from "../helpers/shell-examples.ts";

const fromRoot = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const deployDry = fromRoot("edge/local/deploy-dry.ts");
const readme = readFileSync(fromRoot("edge/README.md"), "utf8");
/** A bundle takes about 4 s when nothing else runs. */
const BUNDLES_LIMIT_MS = 300_000;

const directory = mkdtempSync(join(tmpdir(), "lockgate-edge-deploy-"));
test.after.always(() => rmSync(directory, { recursive: true, force: true }));

test("each environment has every binding and secret of the worker, under another name and with a database of its own", async (t) => {
  const { env, ...plain } = await readWranglerConfig();
  t.deepEqual(Object.keys(env), ["staging", "production"]);
  const all = [plain, ...Object.values(env)];
  for (const { durable_objects, d1_databases, secrets } of Object.values(env)) {
    t.deepEqual(durable_objects, plain.durable_objects);
    t.deepEqual(secrets, plain.secrets);
    const shared = (databases: typeof d1_databases) =>
      databases.map(({ binding, migrations_dir }) => ({ binding, migrations_dir }));
    t.deepEqual(shared(d1_databases), shared(plain.d1_databases));
  }
  for (const part of ["database_name", "database_id"] as const) {
    const values = all.flatMap(({ d1_databases }) => d1_databases.map((database) => database[part]));
    t.is(new Set(values).size, values.length, part);
  }
  t.is(new Set(all.map(({ name }) => name)).size, all.length);
});

test.serial(
  "wrangler bundles the worker by itself and for each environment, and finds nothing to warn of",
  async (t) => {
    t.timeout(BUNDLES_LIMIT_MS);
    const { child, stdout, stderr, exited } = startScript(deployDry, []);
    child.stdin.end();
    const lines: string[] = [];
    stdout.on("line", (line) => lines.push(line));
    t.is(await exited, 0, await stderr);
    const { env, ...plain } = await readWranglerConfig();
    for (const [at, { name, durable_objects, d1_databases }] of [plain, ...Object.values(env)].entries()) {
      t.true(lines[at]?.startsWith(`${name}: `), lines[at]);
      for (const { name: binding, class_name } of durable_objects.bindings)
        t.true(lines[at]?.includes(`${binding} (${class_name})`), lines[at]);
      for (const { binding, database_name } of d1_databases)
        t.true(lines[at]?.includes(`${binding} (${database_name})`), lines[at]);
    }
    t.log(lines.join("\n"));
  },
);

test.serial(
  "an environment that lacks something of the worker's fails the dry run, with wrangler's words",
  async (t) => {
    t.timeout(BUNDLES_LIMIT_MS);
    const path = join(directory, "wrangler.toml");
    const toml = readFileSync(fromRoot("wrangler.toml"), "utf8")
      .replace(/^main = .*$/m, `main = ${JSON.stringify(fromRoot("edge/src/worker.ts"))}`)
      .replace(/^\[env\.staging\][\s\S]*?(?=^\[env\.production\]$)/m, "");
    writeFileSync(path, `${toml}\n[vars]\nAGENTS = "[]"\n`);
    const { exited, stderr } = startScript(deployDry, [path]);
    t.is(await exited, 1);
    t.regex(
      await stderr,
      /^lockgate-edge-production: [\s\S]*"vars" exists at the top level, but not on "env\.production"/m,
    );
  },
);

/** wrangler's own description of its commands, as far as it is needed here. */
const nodeSchema = z.object({
  definition: z
    .object({
      type: z.string(),
      args: z.record(z.string(), z.unknown()).default({}),
      positionalArgs: z.array(z.string()).default([]),
    })
    .optional(),
  get subtree() {
    return z.map(z.string(), nodeSchema);
  },
});

test("every wrangler command of the README is one of the installed wrangler, flag by flag", (t) => {
  const wrangler = createRequire(import.meta.url)("wrangler") as { experimental_getWranglerCommands(): unknown };
  const { registry, globalFlags } = z
    .object({
      registry: z.object({ subtree: z.map(z.string(), nodeSchema) }),
      globalFlags: z.record(z.string(), z.unknown()),
    })
    .parse(wrangler.experimental_getWranglerCommands());
  const inline = [...readme.matchAll(/`(npx wrangler [^`]+)`/g)].map(([, command = ""]) =>
    command.replaceAll(/\s+/g, " "),
  );
  const commands = [...markdownExamples(readme).flat(), ...inline].filter((line) => line.startsWith("npx wrangler "));
  t.true(commands.length > 10, String(commands.length));
  for (const command of commands) {
    const words =
      command
        .replace(/ <.*$/, "")
        .match(/"[^"]*"|\S+/g)
        ?.slice(2) ?? [];
    let at: z.infer<typeof nodeSchema> = registry;
    while (at.subtree.has(words[0] ?? "")) at = at.subtree.get(words.shift() ?? "") ?? at;
    t.is(at.definition?.type, "command", command);
    const { args = {}, positionalArgs = [] } = at.definition ?? {};
    for (const word of words.filter((one) => one.startsWith("--")))
      t.true(word.slice(2) in { ...args, ...globalFlags }, `${command}: ${word}`);
    // Each flag here takes a value but for these.
    const values = words.filter(
      (word, index) => !word.startsWith("--") && !/^--(?!remote$)/.test(words[index - 1] ?? ""),
    );
    t.true(values.length <= positionalArgs.length, `${command}: ${values.join(" ")}`);
    const required = positionalArgs.filter(
      (name) => z.object({ demandOption: z.literal(true) }).safeParse(args[name]).success,
    );
    t.true(values.length >= required.length, `${command}: lacks ${required.join(" ")}`);
  }
});

/** Runs the README's shell block that has this in it, in the test's folder. */
const runBlock = async (part: string): Promise<number | null> => {
  const lines = markdownExamples(readme).find((block) => block.some((line) => line.includes(part))) ?? [];
  const child = spawn("sh", ["-c", lines.join("\n")], {
    cwd: directory,
    env: { PATH: [dirname(process.execPath), process.env.PATH].join(delimiter) },
    stdio: ["ignore", "inherit", "inherit"],
  });
  const [code] = await once(child, "exit");
  return code as number | null;
};
const readJson = <T>(schema: z.ZodType<T>, name: string): T =>
  schema.parse(JSON.parse(readFileSync(join(directory, name), "utf8")));
const textsSchema = z.record(z.string(), z.string());

test("the README's secrets are taken by the worker, and its new admin credential is the only one", async (t) => {
  t.is((await runAgentCommand(["keys", "create", "--file", "gpu-1-keys.json"], { cwd: directory })).code, 0);
  t.is(await runBlock("> staging-secrets.json"), 0);
  for (const name of ["staging-secrets.json", "staging-admin.json"])
    t.is(statSync(join(directory, name)).mode & 0o777, 0o600, name);
  const secrets = readJson(textsSchema, "staging-secrets.json");
  const { secrets: needed } = await readWranglerConfig();
  t.deepEqual(Object.keys(secrets).toSorted(), ["AGENTS", ...needed.required].toSorted());
  const first = readJson(textsSchema, "staging-admin.json").token ?? "";
  t.is(await runBlock("> changed.json"), 0);
  const changed = readJson(textsSchema, "changed.json");
  const second = readJson(textsSchema, "staging-admin.json").token ?? "";

  const edge = await startEdgeWorker({ env: secrets });
  t.teardown(() => edge.stop());
  t.like(await adminClient(edge.url, first)("GET", "/agents"), { status: 200, body: { data: [{ agent: "gpu-1" }] } });
  t.is((await adminClient(edge.url, second)("GET", "/agents")).status, 401);
  const rotated = await startEdgeWorker({ env: { ...secrets, ...changed } });
  t.teardown(() => rotated.stop());
  t.is((await adminClient(rotated.url, first)("GET", "/agents")).status, 401);
  t.is((await adminClient(rotated.url, second)("GET", "/agents")).status, 200);
});
