/** `gpu-agent keys`: files that only their owner reads, secrets that nobody sees unasked, keys that a real agent takes. */
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseSigningKeys } from "@lockgate/shared-types";
import test from "ava";
import { runAgentCommand } from "../helpers/agent-command.ts";
import { agentEntry, signedBy } from "../helpers/agent-process.ts";
import { startScript } from "../helpers/processes.ts";

const directory = mkdtempSync(join(tmpdir(), "lockgate-keys-"));
test.after.always(() => rmSync(directory, { recursive: true, force: true }));

const keysOf = (path: string) => {
  const parsed = parseSigningKeys(readFileSync(path, "utf8"));
  if (!parsed.ok) throw new Error(parsed.hint);
  return [...parsed.keys].map(([id, bytes]) => ({ id, bytes, secret: Buffer.from(bytes).toString("base64url") }));
};

const modeOf = (path: string): number => statSync(path).mode & 0o777;
const keys = (...words: string[]) => runAgentCommand(["keys", ...words]);

test("create writes one key of 32 bytes with mode 0600, and shows its id and no secret", async (t) => {
  const path = join(directory, "created.json");
  const { code, stdout, stderr } = await keys("create", "--file", path);
  t.is(code, 0, stderr);
  const [key, ...others] = keysOf(path);
  t.deepEqual(others, []);
  t.is(key?.bytes.length, 32);
  t.is(modeOf(path), 0o600);
  t.true(stdout.includes(key?.id ?? "-"));
  t.false(`${stdout}${stderr}`.includes(key?.secret ?? ""));
});

test("create leaves a file that is there as it is, and ends with 64", async (t) => {
  const path = join(directory, "there.json");
  writeFileSync(path, "mine");
  const { code, stderr } = await keys("create", "--file", path);
  t.is(code, 64);
  t.regex(stderr, /there already.*keys rotate/);
  t.is(readFileSync(path, "utf8"), "mine");
});

test("--print gives the file's text on standard output and nothing else there", async (t) => {
  const path = join(directory, "printed.json");
  const { stdout } = await keys("create", "--file", path, "--print");
  t.is(stdout, readFileSync(path, "utf8"));
});

test("rotate adds an active key, keeps the one before with its secret, drops older ones, and closes an open file", async (t) => {
  const path = join(directory, "rotated.json");
  await keys("create", "--file", path);
  const [first] = keysOf(path);
  chmodSync(path, 0o644);
  const { code, stdout } = await keys("rotate", "--file", path);
  t.is(code, 0);
  const [second, kept, ...none] = keysOf(path);
  t.deepEqual([kept, none], [first, []]);
  t.not(second?.id, first?.id);
  t.is(modeOf(path), 0o600);
  t.false(stdout.includes(second?.secret ?? ""));
  const again = await keys("rotate", "--file", path);
  t.deepEqual(keysOf(path).slice(1), [second]);
  t.true(again.stdout.includes(`dropped ${first?.id}`));
  t.deepEqual(
    readdirSync(directory).filter((name) => name.endsWith(".fresh")),
    [],
  );
});

test("list has the ids alone, the active one first", async (t) => {
  const path = join(directory, "listed.json");
  await keys("create", "--file", path);
  await keys("rotate", "--file", path);
  const [active, before] = keysOf(path).map(({ id }) => id);
  t.is((await keys("list", "--file", path)).stdout, `${active}  active\n${before}\n`);
  t.deepEqual(JSON.parse((await keys("list", "--file", path, "--json")).stdout), [active, before]);
});

test("a file that is missing ends with 66, one that holds no keys with 65 and without being shown", async (t) => {
  const missing = await keys("rotate", "--file", join(directory, "missing.json"));
  t.is(missing.code, 66);
  const path = join(directory, "wrong.json");
  writeFileSync(path, '{"k": "s3cret"}');
  for (const command of ["rotate", "list"]) {
    const { code, stdout, stderr } = await keys(command, "--file", path);
    t.is(code, 65);
    t.false(`${stdout}${stderr}`.includes("s3cret"));
  }
  t.is(readFileSync(path, "utf8"), '{"k": "s3cret"}');
});

test("the file can be named by its variable", async (t) => {
  const path = join(directory, "variable.json");
  const { code } = await runAgentCommand(["keys", "create"], { env: { LOCKGATE_KEYS_CREATE_FILE: path } });
  t.is(code, 0);
  t.is(keysOf(path).length, 1);
});

test("an agent takes what either key of a rotated file signed", async (t) => {
  const path = join(directory, "agent.json");
  await keys("create", "--file", path);
  await keys("rotate", "--file", path);
  const config = join(directory, "agent.toml");
  writeFileSync(
    config,
    `port = 0\njson = true\nexit_with_stdin = true\n[auth]\nsigning_keys_file = ${JSON.stringify(path)}\n`,
  );
  const agent = startScript(agentEntry, ["serve", "--config", config, "--log-level", "error"]);
  try {
    const { url } = JSON.parse(await agent.firstLine) as { url: string };
    const body = JSON.stringify({ model: "default", max_tokens: 1, messages: [{ role: "user", content: "Hi" }] });
    for (const { id, bytes } of keysOf(path)) {
      const headers = await signedBy({ url, signing: { keyId: id, secret: new Uint8Array(bytes) } }, body);
      const answer = await fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: [...headers, ["content-type", "application/json"]],
        body,
      });
      t.is(answer.status, 200, id);
      await answer.arrayBuffer();
    }
  } finally {
    agent.child.kill("SIGTERM");
    await agent.exited;
  }
});
