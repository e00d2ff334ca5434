/**
 * What `doctor` makes of what it found: each fact becomes one line, ok, warn or fail, with the cure. Pure; doctor.ts finds the facts.
 *
 * `fail` means that `serve` would not start, or not as configured; `warn` that it would, and that somebody will be sorry later.
 */
import type { Backend, Device } from "@lockgate/native";
import { CLOCK_SKEW_S } from "@lockgate/shared-types";
import type { ServeConfig } from "../config/load-serve-config.ts";
import { placeDevices } from "../placement.ts";
import { formatBytes, formatCount, formatTable } from "./format.ts";
import { CPU_DEVICE, fitReplicas, needOfReplica } from "./memory-fit.ts";
import type { ModelFacts } from "./model-facts.ts";
import { fitText } from "./model-lines.ts";

export interface Check {
  readonly level: "ok" | "warn" | "fail";
  readonly what: string;
  readonly finding: string;
  /** What to do about it; null where all is well. */
  readonly cure: string | null;
}

const ok = (what: string, finding: string): Check => ({ level: "ok", what, finding, cure: null });
const warn = (what: string, finding: string, cure: string): Check => ({ level: "warn", what, finding, cure });
const fail = (what: string, finding: string, cure: string): Check => ({ level: "fail", what, finding, cure });

const oneLine = (text: string): string => text.trim().replaceAll(/\s+/g, " ");

/** Oldest Node that runs the package: its manifest's engines. */
export const OLDEST_NODE = [22, 19] as const;

/** `version` as process.versions.node gives it. */
export const checkNode = (version: string): Check => {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [oldestMajor, oldestMinor] = OLDEST_NODE;
  const recent = major > oldestMajor || (major === oldestMajor && minor >= oldestMinor);
  return recent ? ok("node", version) : fail("node", version, `install Node ${OLDEST_NODE.join(".")} or newer`);
};

/** Why the native module did not load, or null. `buildScript` is the path of the script that makes the addon. */
export const checkAddon = (problem: string | null, buildScript: string): Check =>
  problem === null
    ? ok("addon", "built, loads")
    : fail(
        "addon",
        oneLine(problem),
        `build it: node ${buildScript} (gpu-agent serve does so by itself at its first start)`,
      );

const wantsCuda = (configured: readonly string[]): boolean => configured.some((device) => device.startsWith("CUDA"));

/** `version` is the text of /proc/driver/nvidia/version, `controlNode` whether /dev/nvidiactl is there. */
export const checkDriver = (
  driver: { readonly version: string | null; readonly controlNode: boolean },
  configured: readonly string[],
): Check => {
  if (driver.version === null) {
    return wantsCuda(configured)
      ? fail(
          "driver",
          "no NVIDIA driver is loaded",
          "install NVIDIA's driver and restart; nvidia-smi must list the GPUs",
        )
      : ok("driver", "no NVIDIA driver; none is asked for");
  }
  const number = /\b\d{3,}\.\d+(?:\.\d+)*\b/.exec(driver.version)?.[0] ?? oneLine(driver.version).slice(0, 80);
  if (driver.controlNode) return ok("driver", `NVIDIA ${number}`);
  const cure = "run nvidia-modprobe as root; in a container, start it with --gpus all";
  return (wantsCuda(configured) ? fail : warn)("driver", `NVIDIA ${number}, but there is no /dev/nvidiactl`, cure);
};

/** One line a backend. A GPU backend that is not there matters where there is a driver for it. */
export const checkBackends = (
  backends: readonly Backend[],
  driverLoaded: boolean,
  configured: readonly string[],
): Check[] =>
  backends.map(({ name, path, loaded, reason }) => {
    const what = `backend ${name}`;
    if (loaded) return ok(what, path ?? "loaded");
    const why = oneLine(reason ?? "not loaded");
    if (name === "cpu") return fail(what, why, "install the package again: its llama.cpp libraries are incomplete");
    if (name !== "cuda" || !(driverLoaded || wantsCuda(configured))) return ok(what, `not used: ${why}`);
    const cure =
      path === null
        ? "npm run gpu:cuda in a checkout; elsewhere install the package without leaving out its CUDA libraries"
        : "install the CUDA 13 runtime (libcudart.so.13, libcublas.so.13) where the dynamic loader looks";
    return (wantsCuda(configured) ? fail : warn)(what, why, cure);
  });

const deviceText = ({ description, memoryFreeBytes, memoryTotalBytes }: Device): string =>
  `${oneLine(description)}, ${formatBytes(memoryFreeBytes)} of ${formatBytes(memoryTotalBytes)} free`;

/** One line a device, and one for how the configuration shares them out. */
export const checkDevices = (
  devices: readonly Device[],
  config: Pick<ServeConfig, "devices" | "replicas" | "engineCommand">,
): Check[] => {
  const found = devices.map((device) => ok(`device ${device.name}`, deviceText(device)));
  const names = devices.map(({ name }) => name);
  const cure = `--devices takes ${names.join(", ")}, a multiple of --replicas of them, each once`;
  const placed = placeDevices(config.replicas, config.devices, gpuNamesOf(devices));
  if (!placed.ok) return [...found, fail("placement", placed.message, cure)];
  // Another engine has its own names for its devices.
  const strangers = config.engineCommand === undefined ? config.devices.filter((name) => !names.includes(name)) : [];
  return strangers.length === 0
    ? found
    : [...found, fail("placement", `there is no device ${strangers.join(", ")}`, cure)];
};

const gpuNamesOf = (devices: readonly Device[]): string[] =>
  devices.filter(({ kind }) => kind === "gpu").map(({ name }) => name);

export const checkModel = (facts: ModelFacts, config: Pick<ServeConfig, "modelPath" | "contextTokens">): Check => {
  const { architecture, parameters, quantisation, trainedContext, template } = facts;
  const what = `${config.modelPath}: ${architecture}, ${formatCount(parameters)} parameters, ${quantisation}`;
  if (!template.renders) {
    return fail("model", `${what}; ${template.problem}`, "use a GGUF whose chat template works");
  }
  if (trainedContext !== null && config.contextTokens !== undefined && config.contextTokens > trainedContext) {
    return fail(
      "model",
      `${what}; it has no room for a context of ${config.contextTokens}`,
      `set --context to ${trainedContext} or less`,
    );
  }
  return template.present
    ? ok("model", what)
    : warn(
        "model",
        `${what}; no chat template in it, so ChatML is used`,
        "make sure that the model was trained on ChatML",
      );
};

export const checkUnreadableModel = (message: string): Check =>
  fail("model", oneLine(message), "give --model a GGUF file that this llama.cpp knows and this user may read");

/** Weights and KV caches against the free memory of the devices, one line for each set of devices. */
export const checkMemory = (facts: ModelFacts, devices: readonly Device[], config: ServeConfig): Check[] => {
  const placed = placeDevices(config.replicas, config.devices, gpuNamesOf(devices));
  if (!placed.ok) return [];
  const free = new Map(devices.map(({ name, memoryFreeBytes }) => [name, memoryFreeBytes]));
  const cure =
    "use a smaller or more quantised model, a smaller --context, fewer --slots or --replicas, or --kv-type q8_0";
  return fitReplicas(needOfReplica(facts, config), placed.devices, free)
    .filter(({ devices: names }) => names.every((name) => free.has(name)))
    .map((fit): Check => {
      const what = `memory ${fit.devices.join("+")}`;
      const finding = `${fitText(fit)}, for ${fit.replicas} of ${config.replicas} replicas`;
      if (fit.verdict === "fits") return ok(what, finding);
      // A CPU can page weights in from the file: slow, but it starts.
      const fatal = fit.verdict === "too large" && !fit.devices.includes(CPU_DEVICE);
      return (fatal ? fail : warn)(what, finding, cure);
    });
};

/** The two ports that an agent may listen on, named as their flags are. */
export type PortName = "port" | "metrics-port";

/** `code` is the system's word for why the port cannot be had, null where it can. */
export const checkPort = (what: PortName, host: string, port: number, code: string | null): Check => {
  const place = `${host}:${port}`;
  if (code === null) return ok(what, port === 0 ? `${host}, any free port` : `${place} is free`);
  if (code === "EADDRINUSE") {
    return fail(
      what,
      `${place} is taken`,
      `another agent may run already; else choose another --${what}, or 0 for a free one`,
    );
  }
  return fail(
    what,
    `cannot listen on ${place} (${code})`,
    `set --${what.replace("port", "host")} to an address of this machine, and --${what} above 1023`,
  );
};

/** What came of asking the edge for the time. */
export type EdgeAnswer =
  | { readonly kind: "unreachable"; readonly reason: string }
  | {
      readonly kind: "answered";
      readonly status: number;
      readonly date: string | null;
      readonly sentMs: number;
      readonly receivedMs: number;
    };

/** Skew beyond which the allowance of signed requests is half used up. */
const SKEW_WARN_MS = (CLOCK_SKEW_S * 1000) / 2;
/** A Date field (RFC 9110 section 5.6.7) has whole seconds. */
const DATE_STEP_MS = 1_000;

const SYNC = "synchronise this machine's clock: timedatectl set-ntp true";

/** Our clock against the edge's: what is left after the network's own time and the whole seconds are granted. */
export const checkEdge = (edgeUrl: string, answer: EdgeAnswer): Check => {
  if (answer.kind === "unreachable") {
    return fail(
      "edge",
      `${edgeUrl} does not answer (${answer.reason})`,
      "check --edge-url, DNS and the firewall's way out",
    );
  }
  if (answer.status !== 200) {
    return warn("edge", `${edgeUrl}/healthz answers ${answer.status}`, "check that --edge-url is the edge's own URL");
  }
  const dateMs = Date.parse(answer.date ?? "");
  if (Number.isNaN(dateMs)) {
    return warn("clock", `${edgeUrl} answers without a date`, "compare the clocks by hand; signed requests allow 60 s");
  }
  const early = dateMs - answer.receivedMs;
  const late = dateMs + DATE_STEP_MS - answer.sentMs;
  // Somewhere between the two; the smaller size is what is certain.
  const certainMs = early > 0 ? early : Math.min(late, 0);
  const seconds = (Math.abs(certainMs) / 1000).toFixed(1);
  if (Math.abs(certainMs) < SKEW_WARN_MS)
    return ok("clock", `within ${Math.max(Math.abs(early), Math.abs(late))} ms of ${edgeUrl}`);
  const finding = `${seconds} s ${certainMs > 0 ? "behind" : "ahead of"} ${edgeUrl}; signed requests allow ${CLOCK_SKEW_S} s`;
  return (Math.abs(certainMs) > CLOCK_SKEW_S * 1000 ? fail : warn)("clock", finding, SYNC);
};

export const checkConfigFault = (message: string): Check =>
  fail(
    "config",
    message,
    "gpu-agent config schema prints a file that is right; model, memory, port and edge are looked at once it is",
  );

export const checkKeys = ({ signingKeys, localKey }: Pick<ServeConfig, "signingKeys" | "localKey">): Check =>
  ok("config", `signing keys: ${signingKeys.size}, local key: ${localKey === undefined ? "none" : "set"}`);

/** Lines for a terminal: level, what, finding, and the cure in brackets. */
export const checkLines = (checks: readonly Check[]): string[] =>
  formatTable(
    checks.map(({ level, what, finding, cure }) => [level, what, cure === null ? finding : `${finding}  (${cure})`]),
  );
