import { readFileSync } from "node:fs";
import test from "ava";
import { validate } from "dockerfile-utils";
import { z } from "zod";
import { exitCodes } from "../../gpu-agent/src/config/exit-codes.ts";
import { loadServeConfig } from "../../gpu-agent/src/config/load-serve-config.ts";
import { serveOptions } from "../../gpu-agent/src/config/serve-options.ts";

const fileOf = (name: string): string => readFileSync(new URL(`../../gpu-agent/${name}`, import.meta.url), "utf8");

const toml = fileOf("deploy/agent.toml");
const unit = fileOf("deploy/lockgate-agent.service");
const dockerfile = fileOf("deploy/Dockerfile");

const deployed = () => {
  const result = loadServeConfig({
    argv: ["serve", "--config", "agent.toml"],
    env: {},
    readFile: (path) => (path === "agent.toml" ? toml : JSON.stringify({ k: "A".repeat(43) })),
    builtInModelPath: "/m/built-in.gguf",
    version: "0",
  });
  if (!result.ok) throw new Error(result.message);
  return result.config;
};

/** A setting of the unit; the last one counts. */
const setting = (name: string): string => [...unit.matchAll(new RegExp(`^${name}=(.*)$`, "gm"))].at(-1)?.[1] ?? "";

test("the deployed configuration is one that serve takes, with keys from the unit's own folder", (t) => {
  t.is(deployed().signingKeys.size, 1);
  t.regex(toml, new RegExp(`^signing_keys_file = "/var/lib/${setting("StateDirectory")}/[\\w.-]+"$`, "m"));
  t.true(unit.includes("--config /etc/lockgate/agent.toml"));
});

test("systemd waits longer than a drain takes, and stops the agent alone", (t) => {
  t.true(Number(setting("TimeoutStopSec")) * 1_000 > deployed().drainTimeoutMs + 10_000);
  t.is(setting("KillMode"), "mixed");
});

test("systemd starts the agent anew, but not for what trying again cannot mend", (t) => {
  t.is(setting("Restart"), "on-failure");
  const { usage, dataError, noInput, config } = exitCodes;
  t.deepEqual(setting("RestartPreventExitStatus").split(" ").map(Number), [usage, dataError, noInput, config]);
});

test("the unit runs as nobody's root, with a read-only system and no way to new privileges", (t) => {
  t.is(setting("User"), "lockgate");
  for (const name of ["NoNewPrivileges", "ProtectHome", "PrivateTmp", "RestrictSUIDSGID"])
    t.is(setting(name), "yes", name);
  t.is(setting("ProtectSystem"), "strict");
  t.is(setting("CapabilityBoundingSet"), "");
  t.false(/^Environment=.*(KEY|SECRET)/m.test(unit));
});

test("the Dockerfile passes the linter", (t) => {
  t.deepEqual(
    validate(dockerfile).map(({ message, range }) => `${range.start.line + 1}: ${message}`),
    [],
  );
});

test("the linter finds a fault where there is one", (t) => {
  t.is(validate(dockerfile.replace("WORKDIR /opt", "WORKDIR opt")).length, 1);
  t.is(validate(dockerfile.replace("EXPOSE 8788", "EXPOSE many")).length, 1);
});

test("the image's last stage takes its base from outside, runs as a plain user and holds no key", (t) => {
  const last = dockerfile.slice(dockerfile.lastIndexOf("\nFROM "));
  t.regex(dockerfile, /^ARG BASE=debian:/m);
  t.regex(last, /^FROM \$\{BASE\}$/m);
  t.regex(last, /^USER \d+$/m);
  t.false(/KEY|SECRET|TOKEN/i.test(dockerfile.replaceAll(/^#.*$/gm, "")));
  t.regex(last, new RegExp(`LOCKGATE_PORT=${serveOptions.port.fallback}\\b`));
  t.regex(last, new RegExp(`^EXPOSE ${serveOptions.port.fallback}$`, "m"));
});

test("the image for the CPU leaves out what the repository and the README leave out", (t) => {
  const overridesOf = (text: string) => z.object({ overrides: z.unknown() }).parse(JSON.parse(text)).overrides;
  const here = overridesOf(fileOf("deploy/package-cpu.json"));
  t.deepEqual(here, overridesOf(fileOf("../package.json")));
  t.deepEqual(here, overridesOf(/```json\n([\s\S]*?)```/.exec(fileOf("README.md"))?.[1] ?? ""));
});

test("the tunnel leads to where the agent listens by default, last of all to nothing", (t) => {
  const services = [...fileOf("deploy/cloudflared.example.yml").matchAll(/^ +(?:- )?service: (.*)$/gm)].map(
    ([, to]) => to,
  );
  t.deepEqual(services, [
    "http_status:404",
    `http://${serveOptions.host.fallback}:${serveOptions.port.fallback}`,
    "http_status:404",
  ]);
});
