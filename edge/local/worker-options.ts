/**
 * Turns wrangler.toml's settings and the vars of one run into what miniflare takes for one worker. It reads nothing itself.
 *
 * A service binding stands for a plain address here: the private networks that it reaches when deployed do not exist on this machine.
 */
import type { MiniflareOptions } from "miniflare";
import type { EdgeWorkerOptions } from "./edge-worker.ts";
import { repositoryRoot, type WranglerConfig } from "./wrangler-config.ts";

type WorkerOptions = Extract<MiniflareOptions, { workers: unknown }>["workers"][number];
type Bindings = NonNullable<WorkerOptions["config"]["env"]>;

const bindingsOf = (
  wrangler: WranglerConfig,
  { env, services = {} }: EdgeWorkerOptions,
  objectsWorker: string,
): Bindings => {
  const bindings: Bindings = {};
  for (const [name, value] of Object.entries(env)) bindings[name] = { type: "text", value };
  for (const { name, class_name } of wrangler.durable_objects.bindings) {
    bindings[name] = { type: "durable-object", worker: objectsWorker, exportName: class_name };
  }
  for (const { binding, database_id } of wrangler.d1_databases) bindings[binding] = { type: "d1", id: database_id };
  for (const [name, url] of Object.entries(services)) {
    bindings[name] = { type: "external", address: new URL(url).host, http: {} };
  }
  return bindings;
};

/** The options of the `index`-th of `names`; the objects of all belong to the first. `contents` is the bundled module. */
export const workerOptions = (
  wrangler: WranglerConfig,
  options: EdgeWorkerOptions,
  contents: string,
  names: readonly string[],
  index: number,
): WorkerOptions => {
  const name = names[index] ?? wrangler.name;
  const exports: NonNullable<WorkerOptions["config"]["exports"]> = {};
  for (const { class_name } of index === 0 ? wrangler.durable_objects.bindings : []) {
    exports[class_name] = { type: "durable-object", storage: "sqlite" };
  }
  return {
    config: {
      name,
      compatibilityDate: wrangler.compatibility_date,
      compatibilityFlags: wrangler.compatibility_flags,
      manifest: {
        mainModule: "worker.js",
        modulesRoot: repositoryRoot,
        modules: { "worker.js": { type: "esm", contents } },
      },
      env: bindingsOf(wrangler, options, names[0] ?? name),
      exports,
    },
    dev: {
      unsafeDirectSockets: [{ host: "127.0.0.1", port: index === 0 ? (options.port ?? 0) : 0 }],
      stripCfConnectingIp: false,
      unsafeRegisterWorker: false,
    },
  };
};
