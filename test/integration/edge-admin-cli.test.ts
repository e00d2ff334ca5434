/** `npm run admin` against a real edge: what it prints, what it refuses to do with a credential, and how it ends. */

import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "ava";
import { runAdmin } from "../../edge/cli/program.ts";
import { type EdgeWorker, startEdgeWorker } from "../../edge/local/edge-worker.ts";
import { makeAdminSecrets } from "../helpers/admin-client.ts";
import { runAdminCommand } from "../helpers/admin-command.ts";
import { helpCommands, helpExamples } from "../helpers/shell-examples.ts";

/** Some twenty processes one after the other. */
const EXAMPLES_LIMIT_MS = 300_000;

const secrets = makeAdminSecrets();
const directory = mkdtempSync(join(tmpdir(), "lockgate-admin-"));
let edge: EdgeWorker;
let env: Record<string, string>;

test.before(async () => {
  edge = await startEdgeWorker({
    env: {
      ...secrets.env,
      AGENTS: JSON.stringify([{ name: "gpu-1", url: "http://127.0.0.1:9", keyIds: ["k1"] }]),
      AGENT_SIGNING_KEYS: JSON.stringify({ k1: "A".repeat(43) }),
    },
  });
  env = { LOCKGATE_ADMIN_URL: edge.url, LOCKGATE_ADMIN_TOKEN: secrets.token };
});
test.after.always(async () => {
  await edge?.stop();
  rmSync(directory, { recursive: true, force: true });
});

const admin = (...words: string[]) => runAdminCommand(words, env);
const json = async (...words: string[]) => {
  const { code, stdout, stderr } = await admin(...words, "--json");
  if (code !== 0) throw new Error(`${words.join(" ")} ended with ${code}: ${stderr}`);
  return JSON.parse(stdout);
};

test.serial("a key is made, listed, shown, changed, rotated and revoked by its words", async (t) => {
  await json("tenants", "create", "acme", "--name", "Acme Ltd");
  const made = await json(
    "keys",
    "create",
    "--tenant",
    "acme",
    "--name",
    "ci",
    "--rpm",
    "60",
    "--models",
    "atlas,other",
    "--expires",
    "30d",
  );
  t.regex(made.key, /^lg_/);
  t.like(made, { tenant: "acme", models: ["atlas", "other"], limits: { requests_per_minute: 60, concurrency: null } });
  t.true(Math.abs(made.expires_at_ms - Date.now() - 30 * 86_400_000) < 600_000);
  t.like((await json("keys", "list", "--tenant", "acme")).data[0], { key_id: made.key_id, name: "ci" });
  t.like(await json("keys", "show", made.key_id), { guard: { agrees: true } });
  const changed = await json(
    "keys",
    "change",
    made.key_id,
    "--rpm",
    "none",
    "--concurrency",
    "4",
    "--models",
    "all",
    "--expires",
    "none",
  );
  t.like(changed, { models: null, expires_at_ms: null, limits: { requests_per_minute: null, concurrency: 4 } });
  t.not((await json("keys", "rotate", made.key_id, "--overlap", "1h")).key, made.key);
  t.is((await json("keys", "show", made.key_id)).guard.secrets.length, 2);
  t.is((await json("keys", "revoke", made.key_id)).state, "revoked");
});

test.serial("people get a table, with the key in it only where it is made", async (t) => {
  await admin("tenants", "create", "people");
  const made = await admin("keys", "create", "--tenant", "people", "--name", "by hand", "--tpm", "5000");
  t.is(made.code, 0, made.stderr);
  const [, key = ""] = /^key +(lg_\S+)$/m.exec(made.stdout) ?? [];
  t.regex(made.stdout, /tokens a minute +5000/);
  t.regex(made.stdout, /shown this once/);
  const listed = await admin("keys", "list", "--tenant", "people");
  t.regex(listed.stdout, /by hand +active/);
  t.false(listed.stdout.includes(key.slice(-43)));
  t.is((await admin("lost")).stdout, "none\n");
  t.regex((await admin("agents", "list")).stdout, /gpu-1 +in +1 +not heard of/);
  t.regex((await admin("agents", "change", "gpu-1", "--disable", "--weight", "2")).stdout, /gpu-1 +out +2/);
  t.regex((await admin("agents", "change", "gpu-1", "--enable", "--weight", "none")).stdout, /gpu-1 +in +1/);
  t.regex((await admin("audit", "--subject", "agent:gpu-1")).stdout, /agent\.change +agent:gpu-1 +done/);
  t.regex((await admin("consistency")).stdout, /differences/);
});

test.serial("a list goes on over pages, and says when there is more than was asked for", async (t) => {
  await admin("tenants", "create", "many");
  for (let at = 0; at < 3; at += 1) await json("keys", "create", "--tenant", "many", "--name", `k${at}`);
  const two = await admin("keys", "list", "--tenant", "many", "--limit", "2", "--json");
  t.like(JSON.parse(two.stdout), { more: true });
  t.is(JSON.parse(two.stdout).data.length, 2);
  t.regex(two.stderr, /more than 2 rows/);
  t.like(JSON.parse((await admin("keys", "list", "--tenant", "many", "--json")).stdout), { more: false });
});

test.serial("a credential comes from a file that others cannot read, and a flag beats a variable", async (t) => {
  const path = join(directory, "admin.json");
  writeFileSync(path, JSON.stringify({ url: edge.url, token: secrets.token }), { mode: 0o600 });
  t.is((await runAdminCommand(["tenants", "list", "--credential", path])).code, 0);
  t.is((await runAdminCommand(["tenants", "list"], { LOCKGATE_ADMIN_CREDENTIAL: path })).code, 0);
  const flag = await runAdminCommand(["tenants", "list", "--credential", path], { LOCKGATE_ADMIN_TOKEN: "wrong" });
  t.is(flag.code, 0, flag.stderr);
  for (const mode of [0o640, 0o604, 0o666]) {
    chmodSync(path, mode);
    const open = await runAdminCommand(["tenants", "list", "--credential", path]);
    t.is(open.code, 78);
    t.regex(open.stderr, /chmod 600/);
  }
});

test.serial(
  "what is wrong with a credential or an edge is one clear line and a code of its own, and never the token",
  async (t) => {
    const bad = join(directory, "bad.json");
    writeFileSync(bad, `{"token": "${secrets.token}"`, { mode: 0o600 });
    const nobody = createServer().listen(0, "127.0.0.1");
    await once(nobody, "listening");
    const { port } = nobody.address() as AddressInfo;
    nobody.close();
    const other = createServer((_, response) => response.end("hello")).listen(0, "127.0.0.1");
    await once(other, "listening");
    const otherUrl = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
    try {
      for (const [given, flags, code, words] of [
        [{ LOCKGATE_ADMIN_URL: edge.url }, [], 78, /no credential/],
        [{ LOCKGATE_ADMIN_TOKEN: secrets.token }, [], 78, /no edge/],
        [{ ...env, LOCKGATE_ADMIN_TOKEN: "wrong" }, [], 77, /invalid_api_key/],
        [{ ...env, LOCKGATE_ADMIN_URL: `http://127.0.0.1:${port}` }, [], 69, /does not answer \(ECONNREFUSED\)/],
        [{ ...env, LOCKGATE_ADMIN_URL: otherUrl }, [], 76, /not as an admin API/],
        [{ ...env, LOCKGATE_ADMIN_URL: "http://edge.example" }, [], 78, /https/],
        [env, ["--credential", join(directory, "missing.json")], 66, /ENOENT/],
        [env, ["--credential", bad], 78, /not a credential file/],
      ] as const) {
        const end = await runAdminCommand(["tenants", "list", ...flags], given);
        t.is(end.code, code, end.stderr);
        t.regex(end.stderr, words);
        t.is(end.stderr.trim().split("\n").length, 1);
        t.false(`${end.stdout}${end.stderr}`.includes(secrets.token));
      }
    } finally {
      other.close();
    }
  },
);

test.serial("what the edge refuses is told in its words and ends with 65, a wrong command line with 64", async (t) => {
  const refused = await admin("keys", "create", "--tenant", "nobody", "--name", "x");
  t.is(refused.code, 65);
  t.is(refused.stderr, "admin: invalid_value: tenant: there is no such tenant\n");
  t.is((await admin("keys", "show", "0".repeat(32))).code, 65);
  for (const words of [
    ["keys", "create", "--name", "x"],
    ["keys", "create", "--tenant", "acme", "--name", "x", "--rpm", "many"],
    ["keys", "create", "--tenant", "acme", "--name", "x", "--expires", "soon"],
    ["keys", "rotate", "0", "--overlap", "1w"],
    ["agents", "change", "gpu-1"],
    ["agents", "change", "gpu-1", "--enable", "--disable"],
    ["keys", "destroy"],
    ["keys", "list", "--token", "x"],
  ]) {
    const end = await admin(...words);
    t.is(end.code, 64, `${words.join(" ")}\n${end.stderr}`);
    t.is(end.stdout, "");
  }
});

/** A --help, without a process for each of some twenty commands. */
const helpOf = async (path: readonly string[]): Promise<string> => {
  let text = "";
  const writeOut = (written: string): void => {
    text += written;
  };
  const code = await runAdmin([...path, "--help"], { env: {}, writeOut, writeError: writeOut, nowMs: Date.now() });
  if (code !== 0) throw new Error(`${path.join(" ")} --help ended with ${code}`);
  return text;
};

/** The command and all its commands, by their words. */
const allCommands = async (path: readonly string[] = []): Promise<(readonly string[])[]> => {
  const inner = await Promise.all(helpCommands(await helpOf(path)).map((name) => allCommands([...path, name])));
  return [path, ...inner.flat()];
};

test.serial("each command has its help, and each example of it ends well", async (t) => {
  t.timeout(EXAMPLES_LIMIT_MS);
  const commands = await allCommands();
  for (const path of [
    "keys create",
    "keys rotate",
    "tenants delete",
    "agents change",
    "usage",
    "lost",
    "consistency",
    "audit",
    "openapi",
  ]) {
    t.true(
      commands.some((words) => words.join(" ") === path),
      path,
    );
  }
  const seen = new Set<string>();
  for (const path of [["tenants"], [], ["keys"], ["agents"]]) {
    for (const line of helpExamples(await helpOf(path))) seen.add(line);
  }
  t.true(seen.size >= 8);
  for (const line of seen) {
    const words = line.replace(/^npm run admin -- /, "").match(/'[^']*'|\S+/g) ?? [];
    const end = await admin(...words.map((word) => word.replaceAll("'", "")));
    // The tenant of the examples is there already.
    if (line.includes("tenants create")) t.true([0, 65].includes(end.code ?? -1), `${line}\n${end.stderr}`);
    else t.is(end.code, 0, `${line}\n${end.stderr}`);
  }
});
