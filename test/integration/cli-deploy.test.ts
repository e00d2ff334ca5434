/** The deployment files as far as this machine can tell: systemd's own check of the unit, the image's health check against a real agent. */
import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import test from "ava";
import { startAgentUnderTest } from "../helpers/agent-process.ts";

const deploy = fileURLToPath(new URL("../../gpu-agent/deploy/", import.meta.url));
const directory = mkdtempSync(join(tmpdir(), "lockgate-deploy-"));
test.after.always(() => rmSync(directory, { recursive: true, force: true }));

const INSTALLED = "/opt/lockgate/node_modules/.bin/gpu-agent";

/** What systemd says of the unit, with a program in the place of the installed one, which must exist for the check. */
const verify = (unit: string) => {
  const path = join(directory, "lockgate-agent.service");
  writeFileSync(path, unit.replace(INSTALLED, process.execPath).replace(/^Documentation=.*\n/m, ""));
  return spawnSync("systemd-analyze", ["verify", "--man=no", path], { encoding: "utf8" });
};

test("systemd finds no fault in the unit, and finds one where there is one", (t) => {
  const unit = readFileSync(join(deploy, "lockgate-agent.service"), "utf8");
  t.true(unit.includes(`ExecStart=${INSTALLED} serve`));
  const { error, status, stdout, stderr } = verify(unit);
  if (error !== undefined) {
    t.log(`not run: there is no systemd-analyze here (${(error as NodeJS.ErrnoException).code})`);
    return;
  }
  t.is(`${stdout}${stderr}`, "");
  t.is(status, 0);
  for (const [wrong, says] of [
    [unit.replace("KillMode=mixed", "KillMode=some"), /KillMode|kill mode/i],
    [unit.replace("NoNewPrivileges=", "NoNewPriviliges="), /NoNewPriviliges/],
    [unit.replace("ExecStart=/", "ExecStart="), /ExecStart|executable/i],
  ] as const) {
    t.regex(verify(wrong).stderr, says);
  }
});

test("the image's health check says 0 of an agent that is ready and 1 of one that is gone", async (t) => {
  const dockerfile = readFileSync(join(deploy, "Dockerfile"), "utf8");
  const [, command = "[]"] = /^ +CMD (\[.*\])$/m.exec(dockerfile) ?? [];
  const [program, ...words] = JSON.parse(command) as string[];
  t.is(program, "node");
  const agent = await startAgentUnderTest(["--log-level", "error"]);
  const check = () =>
    promisify(execFile)(process.execPath, words, {
      env: { ...process.env, LOCKGATE_PORT: new URL(agent.url).port },
    }).then(
      () => 0,
      (error: { code: number }) => error.code,
    );
  t.is(await check(), 0);
  await agent.stop();
  t.is(await check(), 1);
});
