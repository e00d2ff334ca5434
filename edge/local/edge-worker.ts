/**
 * Runs the real worker in a real workerd on this machine: for `npm start` and for the integration tests.
 *
 * The listening socket is workerd's own: miniflare's entry socket, which rewrites Accept-Encoding and gzips, is not used. Nothing is
 * fetched from outside at start, nothing is reported, nothing is kept on disk afterwards.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { ChildProcess } from "node:child_process";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { Log, LogLevel, Miniflare } from "miniflare";
import type { EnvTexts } from "../src/env-texts.ts";
import { applyMigrations } from "./apply-migrations.ts";
import { bundleWorker } from "./bundle.ts";
import { endWithParent } from "./end-with-parent.ts";
import { withTimeout } from "./with-timeout.ts";
import { workerOptions } from "./worker-options.ts";
import { readWranglerConfig, repositoryRoot } from "./wrangler-config.ts";

/** workerd is ready in under a second; a loaded machine gets more. */
const READY_TIMEOUT_MS = 60_000;

export interface EdgeWorkerOptions {
  /** 0, the default, takes a free one. */
  readonly port?: number;
  /** The worker's vars and secrets; they reach workerd over a pipe, never on a command line. */
  readonly env: EnvTexts;
  /** Service bindings: name to the URL that each stands for. A deployed worker has vpc_services there. */
  readonly services?: Readonly<Record<string, string>>;
  /** Workers that share one workerd, its objects and its database; the default is one. */
  readonly workers?: number;
  /** Gets every line that the worker logs; the default drops them. */
  readonly onLog?: (line: string) => void;
  /** Another entry point, relative to the root; the default is wrangler.toml's. */
  readonly main?: string;
}

export interface EdgeWorker {
  /** `http://127.0.0.1:<port>`, no trailing slash. */
  readonly url: string;
  /** One for each worker, `url` first. */
  readonly urls: readonly string[];
  /** Makes an object lose its memory, as a move to another machine does. `className` as in wrangler.toml. */
  evict(className: string, objectName: string): Promise<void>;
  /** The objects behind a binding, called from outside; an object that was called so cannot be evicted any more. */
  objects(binding: string): ReturnType<Miniflare["getDurableObjectNamespace"]>;
  /** How many objects of a class have ever stored something. */
  objectCount(className: string): Promise<number>;
  /** A look into the ledger from outside. */
  readonly ledger: Awaited<ReturnType<Miniflare["getD1Database"]>>;
  /** The workerd processes that run now. */
  readonly pids: readonly number[];
  /** Ends workerd and waits until it is gone. */
  stop(): Promise<void>;
}

/** Tells the workerd of one edge from that of another which starts at the same time. */
const startingEdge = new AsyncLocalStorage<symbol>();

/** Follows the processes that are spawned under `edge`, with a watch over each. */
const followProcesses = (edge: symbol) => {
  const running = new Set<ChildProcess>();
  const onSpawn = (message: unknown): void => {
    if (startingEdge.getStore() !== edge) return;
    const { process: child } = message as { process: ChildProcess };
    running.add(child);
    let standDown: (() => void) | undefined;
    child.once("spawn", () => {
      // Outside of this edge's context, or the watcher would itself be followed.
      const { pid } = child;
      if (pid !== undefined) standDown = startingEdge.exit(() => endWithParent(pid));
    });
    child.once("exit", () => {
      running.delete(child);
      standDown?.();
    });
  };
  subscribe("child_process", onSpawn);
  return { running, close: () => unsubscribe("child_process", onSpawn) };
};

/** The library would end this whole process on a signal; when it ends, and in which order, is for whoever started the edge to say. */
const keepOwnSignals = <T>(create: () => T): T => {
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  const before = new Set(signals.flatMap((signal) => process.listeners(signal)));
  const created = create();
  for (const signal of signals) {
    for (const listener of process.listeners(signal)) if (!before.has(listener)) process.off(signal, listener);
  }
  return created;
};

/**
 * Bundles and starts the worker.
 * Throws the bundler's or workerd's own message; a port that is taken gives an error with code `ERR_ADDRESS_IN_USE`.
 */
export const startEdgeWorker = async (options: EdgeWorkerOptions): Promise<EdgeWorker> => {
  const wrangler = await readWranglerConfig();
  const contents = await bundleWorker(options.main ?? wrangler.main);
  const names = Array.from({ length: options.workers ?? 1 }, (_, index) => `${wrangler.name}-${index + 1}`);
  const [firstName = ""] = names;
  const edge = Symbol("edge");
  const processes = followProcesses(edge);
  const miniflare = keepOwnSignals(() =>
    startingEdge.run(
      edge,
      () =>
        new Miniflare({
          host: "127.0.0.1",
          port: 0,
          cf: false,
          enableDevRegistry: false,
          logRequests: false,
          log: new Log(LogLevel.NONE),
          handleStructuredLogs: ({ message }) => options.onLog?.(message),
          workers: names.map((_, index) => workerOptions(wrangler, options, contents, names, index)),
        }),
    ),
  );
  const stop = async (): Promise<void> => {
    const ended = [...processes.running].map((child) => once(child, "exit"));
    await miniflare.dispose();
    await Promise.all(ended);
    processes.close();
  };
  try {
    await withTimeout(miniflare.ready, READY_TIMEOUT_MS, "starting workerd");
    const urls = await Promise.all(names.map(async (name) => (await miniflare.unsafeGetDirectURL(name)).origin));
    const databases = await Promise.all(
      wrangler.d1_databases.map(async ({ binding, migrations_dir }) => {
        const database = await miniflare.getD1Database(binding, firstName);
        await applyMigrations(database, `${repositoryRoot}${migrations_dir}`);
        return database;
      }),
    );
    const [ledger] = databases;
    const [url] = urls;
    if (url === undefined || ledger === undefined) throw new Error("wrangler.toml names no database");
    return {
      url,
      urls,
      ledger,
      objects: (binding) => miniflare.getDurableObjectNamespace(binding, firstName),
      evict: (className, name) => miniflare.unsafeEvictDurableObject(firstName, className, { name }),
      objectCount: async (className) => (await miniflare.listDurableObjectIds(className, firstName)).length,
      get pids() {
        return [...processes.running].flatMap((child) => child.pid ?? []);
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
};
