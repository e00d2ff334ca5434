import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import test from "ava";
import { type InstalledPackage, installAgentPackage, repositoryPath } from "../helpers/agent-package.ts";
import { untilGone } from "../helpers/edge-worker-processes.ts";
import { expectedAnswers } from "../helpers/expected-answers.ts";

/** An install takes what the registry takes, and the first start compiles the addon. */
const INSTALL_LIMIT_MS = 300_000;
const START_LIMIT_MS = 300_000;
const REPLAY_LIMIT_MS = 120_000;

let installed: InstalledPackage;

test.before(async (t) => {
  t.timeout(INSTALL_LIMIT_MS);
  installed = await installAgentPackage();
});

test.after.always(async () => {
  await installed?.remove();
});

const packageFolder = (): string => join(installed.directory, "node_modules", "@lockgate", "gpu-agent");

test.serial(
  "the tarball holds compiled code, the addon's sources, the model and the notices, and no source or build of ours",
  async (t) => {
    const names = await readdir(packageFolder(), { recursive: true });
    for (const name of [
      "bin/gpu-agent.js",
      "dist/cli.js",
      "native/CMakeLists.txt",
      "native/index.js",
      "native/scripts/build.mjs",
      "native/src/addon.cpp",
      "models/tiny-atlas-3m-q8_0.gguf",
      "models/MODEL_CARD.md",
      "bench/control_peer.py",
      "README.md",
      "LICENSE",
      "THIRD_PARTY.md",
    ]) {
      t.true(names.includes(name), name);
    }
    t.deepEqual(
      names.filter((name) => /(^|\/)(src\/cli\.ts|build|\.llama|node_modules)$|(?<!\.d)\.ts$/.test(name)),
      [],
    );
    for (const name of names.filter((one) => one.startsWith("dist/"))) {
      t.false((await readFile(join(packageFolder(), name), "utf8")).includes(repositoryPath), name);
    }
  },
);

test.serial(
  "the packed manifest asks for Node >= 22.19 and for no workspace; the checkout's own is as it was",
  async (t) => {
    const read = async (path: string) =>
      JSON.parse(await readFile(path, "utf8")) as Record<string, Record<string, string>>;
    const packed = await read(join(packageFolder(), "package.json"));
    t.is(packed.engines?.node, ">=22.19");
    t.is(packed.devDependencies, undefined);
    t.deepEqual(
      Object.keys(packed.dependencies ?? {}).filter((name) => name.startsWith("@lockgate/")),
      [],
    );
    t.deepEqual(await readdir(join(installed.directory, "node_modules", "@lockgate")), ["gpu-agent"]);
    const checkout = await read(join(repositoryPath, "gpu-agent", "package.json"));
    t.is(checkout.engines, undefined);
    t.is(checkout.devDependencies?.["@lockgate/native"], "0.1.0");
  },
);

test.serial(
  "an installed agent builds its own addon and not a stranger's beside it, answers exactly, and SIGTERM ends it with 0 and leaves no process",
  async (t) => {
    t.timeout(START_LIMIT_MS);
    const stranger = join(packageFolder(), "..", "native", "scripts");
    await mkdir(stranger, { recursive: true });
    await writeFile(join(stranger, "build.mjs"), "process.exit(1);\n");
    const localKey = randomBytes(24).toString("base64url");
    const serving = await installed.serve(localKey);
    const [item] = expectedAnswers;
    if (item === undefined) throw new Error("there are no recorded answers");
    const answer = await fetch(`${serving.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${localKey}`, "content-type": "application/json" },
      body: JSON.stringify({ model: serving.model, temperature: 0, messages: item.messages }),
    });
    t.is(answer.status, 200);
    const { choices, usage } = (await answer.json()) as {
      choices: { message: { content: string } }[];
      usage: { completion_tokens: number };
    };
    t.is(choices[0]?.message.content, item.expected);
    t.is(usage.completion_tokens, item.expected_tokens);
    process.kill(serving.pids.agent, "SIGTERM");
    const { code, stderr } = await serving.exited;
    t.is(code, 0, stderr);
    for (const pid of [serving.pids.agent, ...serving.pids.replicas]) t.true(await untilGone(pid), String(pid));
  },
);

test.serial("the ownership contracts come out as recorded from an installed package too", async (t) => {
  t.timeout(REPLAY_LIMIT_MS);
  const output = join(installed.directory, "replay");
  const { code, stderr } = await installed.command(["replay", "--output", output]);
  t.is(code, 0, stderr);
  t.true((await readdir(output)).includes("summary.json"));
});
