/**
 * What the edge's bench measures, started: the upstream and the client as processes of their own, and in front of the upstream the edge, the
 * bare worker and the ladder, each in a workerd of its own with the edge's flags. Knows nothing of figures.
 */
import { fork } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { type EdgeWorker, startEdgeWorker } from "../../edge/local/edge-worker.ts";
import { BenchChildren, within } from "../../gpu-agent/src/bench/children.ts";
import { adminClient, makeAdminSecrets, type ProvisionedKey, provisionKey } from "../helpers/admin-client.ts";
import type { Account } from "./edge-accounts.ts";
import { bodyOf, clientAnswerSchema, type EdgeLoad, type EdgeSample, upstreamAnswerSchema } from "./edge-load.ts";

const CHAT_PATH = "/v1/chat/completions";
const START_TIMEOUT_MS = 60_000;
const SAMPLE_TIMEOUT_MS = 120_000;
/** Of every limit of the key: all are counted, none is met. */
const PLENTY = 1_000_000_000;

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** Somewhere that a load can be sent. */
export interface Place {
  /** Path and all. */
  readonly url: string;
  readonly key: string;
  /** The process whose CPU time it takes; undefined where there is none between client and upstream. */
  readonly pid: number | undefined;
}

export interface FullEdge extends Place {
  readonly worker: EdgeWorker;
  readonly apiKey: ProvisionedKey;
  readonly adminToken: string;
  readonly account: Account;
}

export interface EdgePlaces {
  readonly direct: Place;
  readonly bare: Place;
  readonly edge: FullEdge;
  /** The edge with a ladder before it: a rung's name comes first in the path. */
  readonly ladder: FullEdge;
  run(load: EdgeLoad): Promise<EdgeSample>;
}

/** A process of ours that speaks over its channel; it ends with the other children. */
const startProcess = (children: BenchChildren, file: string) => {
  const { child, died } = children.start(
    () => fork(here(file)),
    (one) => one.disconnect(),
  );
  return {
    child,
    next: async (what: string, timeoutMs: number): Promise<unknown> => {
      const [message] = (await within(Promise.race([once(child, "message"), died]), timeoutMs, what)) as [unknown];
      return message;
    },
  };
};

const startClient = async (children: BenchChildren): Promise<EdgePlaces["run"]> => {
  const { child, next } = startProcess(children, "./edge-client.ts");
  await next("starting the client", START_TIMEOUT_MS);
  return async (load) => {
    const answered = next("a measurement", SAMPLE_TIMEOUT_MS);
    child.send(load);
    const answer = clientAnswerSchema.parse(await answered);
    if ("sample" in answer) return answer.sample;
    throw new Error("fault" in answer ? answer.fault : "the client was ready twice");
  };
};

const pidOf = ({ pids }: EdgeWorker): number => {
  const [pid] = pids;
  if (pid === undefined) throw new Error("no workerd runs");
  return pid;
};

/** An edge with every limit of its key on, and the upstream told to deliver usage to it. `main` as startEdgeWorker takes it. */
const startFullEdge = async (
  agent: string,
  upstreamUrl: string,
  stack: AsyncDisposableStack,
  main?: string,
): Promise<FullEdge> => {
  const secrets = makeAdminSecrets();
  const account = { agent, keyId: agent, secret: randomBytes(32).toString("base64url") };
  const worker = await startEdgeWorker({
    env: {
      ...secrets.env,
      AGENTS: JSON.stringify([{ name: agent, url: `${upstreamUrl}/${agent}`, keyIds: [account.keyId] }]),
      AGENT_SIGNING_KEYS: JSON.stringify({ [account.keyId]: account.secret }),
    },
    ...(main === undefined ? {} : { main }),
  });
  stack.defer(() => worker.stop());
  const limits = {
    requests_per_minute: PLENTY,
    tokens_per_minute: PLENTY,
    concurrency: PLENTY,
    tokens_per_month: PLENTY,
  };
  const apiKey = await provisionKey(adminClient(worker.url, secrets.token), { limits });
  return {
    url: `${worker.url}${CHAT_PATH}`,
    key: apiKey.text,
    pid: pidOf(worker),
    worker,
    apiKey,
    adminToken: secrets.token,
    account: { ...account, edgeUrl: worker.url },
  };
};

/** The processes end with `children`, the workers with `stack`. */
const startEdgePlaces = async (children: BenchChildren, stack: AsyncDisposableStack): Promise<EdgePlaces> => {
  const run = await startClient(children);
  const upstream = startProcess(children, "./edge-upstream.ts");
  const { url } = upstreamAnswerSchema.parse(await upstream.next("starting the upstream", START_TIMEOUT_MS));
  const bare = await startEdgeWorker({
    env: { AGENTS: JSON.stringify([{ url: `${url}/bare` }]) },
    main: "edge/bench/bare.ts",
  });
  stack.defer(() => bare.stop());
  const edge = await startFullEdge("edge", url, stack);
  const ladder = await startFullEdge("ladder", url, stack, "edge/bench/ladder.ts");
  for (const { account } of [edge, ladder]) upstream.child.send(account);
  return {
    run,
    direct: { url: `${url}/direct${CHAT_PATH}`, key: edge.key, pid: undefined },
    bare: { url: `${bare.url}${CHAT_PATH}`, key: edge.key, pid: pidOf(bare) },
    edge,
    ladder,
  };
};

/** Starts all, works with it and ends it, also when `interrupted` resolves first; that is the result then. */
export const withEdgePlaces = async <Result>(
  work: (places: EdgePlaces) => Promise<Result>,
  interrupted: Promise<"interrupted"> = new Promise(() => undefined),
): Promise<Result | "interrupted"> => {
  await using children = new BenchChildren();
  await using stack = new AsyncDisposableStack();
  const working = startEdgePlaces(children, stack).then(work);
  working.catch(() => undefined); // what it works with goes away under it
  return await Promise.race([working, interrupted]);
};

/** A rung of the ladder, by name. */
export const rungOf = ({ ladder }: EdgePlaces, rung: string): Place => {
  const { origin, pathname } = new URL(ladder.url);
  return { ...ladder, url: `${origin}/${rung}${pathname}` };
};

/** ms of one take at the key's guard in each of so many groups. */
export const probeTakes = async ({ worker, apiKey }: FullEdge, groups: number): Promise<number[]> => {
  const secretSha256 = createHash("sha256").update(apiKey.text).digest("hex");
  const probe = JSON.stringify({ keyId: apiKey.id, secretSha256, groups });
  const answer = await fetch(`${worker.url}/probe/take`, { method: "POST", body: probe });
  if (!answer.ok) throw new Error(`the probe answered ${answer.status}`);
  return (await answer.json()) as number[];
};

/** Runs of one step; the best counts, for what else the machine does can only add. */
const STEP_RUNS = 5;

/** µs of each step's own code, warm: its loop of so many times, less an empty one's. */
export const timeSteps = async ({ worker, apiKey }: FullEdge, times: number): Promise<[step: string, us: number][]> => {
  const base = `${worker.url}/probe/steps/`;
  const headers = { authorization: `Bearer ${apiKey.text}` };
  const body = bodyOf({ body: "small", events: 8, paceMs: 0 });
  const names = z.array(z.string()).parse(await (await fetch(base, { headers })).json());
  const runMs = async (name: string): Promise<number> => {
    const beganMs = performance.now();
    const { status } = await fetch(`${base}${encodeURIComponent(name)}/${times}`, { method: "POST", headers, body });
    if (status !== 204) throw new Error(`the probe of ${name} answered ${status}`);
    return performance.now() - beganMs;
  };
  const best: [string, number][] = [];
  for (const name of names) {
    const runsMs: number[] = [];
    for (let run = 0; run < STEP_RUNS; run += 1) runsMs.push(await runMs(name));
    best.push([name, (Math.min(...runsMs) * 1000) / times]);
  }
  const [nothing, ...steps] = best;
  return steps.map(([name, us]) => [name, us - (nothing?.[1] ?? 0)]);
};
