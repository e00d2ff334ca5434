/**
 * `gpu-agent doctor`: looks at everything that `serve` with the same configuration needs, and says what is wrong and how to cure it, before
 * a start says it one thing at a time. It changes nothing and starts nothing, and works without the native addon.
 */
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { relative } from "node:path";
import type { Command } from "commander";
import { addFlag, addServeFlags, readFlags } from "../config/command-line.ts";
import { exitCodes } from "../config/exit-codes.ts";
import { resolveServeConfig, type ServeConfig } from "../config/load-serve-config.ts";
import { listen } from "../http/listen.ts";
import { buildScriptPath } from "../models/ensure-addon.ts";
import { jsonOption, takeCommandOptions, twinOf } from "./command-options.ts";
import { type CliContext, failureText, failWith } from "./context.ts";
import {
  type Check,
  checkAddon,
  checkBackends,
  checkConfigFault,
  checkDevices,
  checkDriver,
  checkEdge,
  checkKeys,
  checkLines,
  checkMemory,
  checkModel,
  checkNode,
  checkPort,
  checkUnreadableModel,
  type EdgeAnswer,
} from "./doctor-checks.ts";
import { type ModelFacts, modelFacts } from "./model-facts.ts";

/** How long the edge has to answer. */
const EDGE_LIMIT_MS = 5_000;

const NVIDIA_VERSION = "/proc/driver/nvidia/version";
const NVIDIA_CONTROL = "/dev/nvidiactl";

const EXAMPLES = `
Examples:
  gpu-agent doctor
  gpu-agent doctor --model ./model.gguf --slots 4 --port 0 --json

Takes the flags, the environment and the file that serve takes. Ends with 0 where nothing failed, else with 69.`;

const ownOptions = { json: jsonOption };

const readDriver = (): { version: string | null; controlNode: boolean } => {
  try {
    return { version: readFileSync(NVIDIA_VERSION, "utf8"), controlNode: existsSync(NVIDIA_CONTROL) };
  } catch {
    return { version: null, controlNode: false };
  }
};

/** Takes the port and gives it back. Resolves with null, or with the system's code. */
const tryPort = async (host: string, port: number): Promise<string | null> => {
  const server = createServer();
  try {
    await listen(server, host, port);
    return null;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? "unknown";
  } finally {
    server.close();
  }
};

const askEdge = async (edgeUrl: string): Promise<EdgeAnswer> => {
  const sentMs = Date.now();
  try {
    const response = await fetch(`${edgeUrl.replace(/\/$/, "")}/healthz`, {
      redirect: "manual",
      signal: AbortSignal.timeout(EDGE_LIMIT_MS),
    });
    const receivedMs = Date.now();
    await response.body?.cancel();
    return { kind: "answered", status: response.status, date: response.headers.get("date"), sentMs, receivedMs };
  } catch (error) {
    return { kind: "unreachable", reason: failureText(error as Error) };
  }
};

const loadNative = async () => {
  try {
    return { ok: true as const, native: await import("../models/inspect-model.ts") };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return { ok: false as const, problem: code === "ERR_ADDON_NOT_BUILT" ? "not built" : message };
  }
};

/** The model by its metadata, or the line that says why not. */
const readModel = async (
  inspectModel: (path: string) => Promise<Parameters<typeof modelFacts>[0]>,
  path: string,
): Promise<ModelFacts | Check> => {
  try {
    return modelFacts(await inspectModel(path));
  } catch (error) {
    return checkUnreadableModel((error as Error).message);
  }
};

/** All checks, in the order of their lines; `fault` is what the configuration came to where it is wrong. */
const examine = async (context: CliContext, config: ServeConfig | undefined, fault: string): Promise<Check[]> => {
  const driver = readDriver();
  const configured = config?.devices ?? [];
  const checks: Check[] = [
    checkNode(process.versions.node),
    config === undefined ? checkConfigFault(fault) : checkKeys(config),
    checkDriver(driver, configured),
  ];
  const loaded = await loadNative();
  const script = relative(process.cwd(), buildScriptPath(context.packageRoot));
  checks.push(checkAddon(loaded.ok ? null : loaded.problem, script));
  if (loaded.ok) {
    const { devices, backends } = loaded.native.inspectMachine();
    checks.push(...checkBackends(backends, driver.version !== null, configured));
    checks.push(...checkDevices(devices, config ?? { devices: [], replicas: 1, engineCommand: undefined }));
    if (config !== undefined) {
      const model = await readModel(loaded.native.inspectModel, config.modelPath);
      if ("level" in model) checks.push(model);
      else {
        checks.push(checkModel(model, config));
        // Another engine's memory is its own affair.
        if (config.engineCommand === undefined) checks.push(...checkMemory(model, devices, config));
      }
    }
  }
  if (config !== undefined) {
    checks.push(checkPort("port", config.host, config.port, await tryPort(config.host, config.port)));
    const { metricsHost, metricsPort } = config;
    if (metricsPort !== undefined) {
      checks.push(checkPort("metrics-port", metricsHost, metricsPort, await tryPort(metricsHost, metricsPort)));
    }
  }
  if (config?.edgeUrl !== undefined) checks.push(checkEdge(config.edgeUrl, await askEdge(config.edgeUrl)));
  return checks;
};

/** Adds `doctor`, with serve's own flags. */
export const addDoctorCommand = (program: Command, context: CliContext): void => {
  const doctor = program
    .command("doctor")
    .description("Look at everything that serve needs, and say what is wrong and how to cure it.")
    .addHelpText("after", EXAMPLES);
  addServeFlags(doctor, ["json", "exit-with-stdin"]);
  addFlag(doctor, jsonOption, twinOf("doctor", jsonOption.name));
  doctor.action(async () => {
    const flags = readFlags(doctor);
    const own = takeCommandOptions("doctor", ownOptions, flags, context.env);
    if (!own.ok) return context.endWith(failWith(context, own.exitCode, own.message));
    const resolved = resolveServeConfig(flags, {
      env: context.env,
      readFile: (path) => readFileSync(path, "utf8"),
      builtInModelPath: context.builtInModelPath,
    });
    const checks = await examine(
      context,
      resolved.ok ? resolved.config : undefined,
      resolved.ok ? "" : resolved.message,
    );
    context.writeOut(own.values.json ? `${JSON.stringify(checks)}\n` : `${checkLines(checks).join("\n")}\n`);
    context.endWith(checks.some(({ level }) => level === "fail") ? exitCodes.unavailable : exitCodes.ok);
  });
};
