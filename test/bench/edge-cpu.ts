/**
 * CPU time of one request of each kind at the edge, for limits.cpu_ms in wrangler.toml. What is read is the time of all of workerd, the
 * runtime's own work on sockets, the objects and the local database included: more than the platform counts.
 */
import { cpuTimeMs } from "../../gpu-agent/src/bench/process-figures.ts";
import { rounded } from "../../gpu-agent/src/bench/quantile.ts";
import { keyOf, postUsage, recordOf } from "./edge-accounts.ts";
import type { EdgeLoad, EdgeSample } from "./edge-load.ts";
import type { FullEdge } from "./edge-places.ts";

export interface CpuRow {
  readonly kind: string;
  readonly requests: number;
  readonly cpuMsPerRequest: number;
}

const RECORDS_OF_BATCH = 128;
const CONNECTIONS = 4;

type Kind = readonly [name: string, load: Pick<EdgeLoad, "body" | "events">];
const kinds: readonly Kind[] = [
  ["8 events", { body: "small", events: 8 }],
  ["500 events", { body: "small", events: 500 }],
  ["body of 4 MiB", { body: "large", events: 8 }],
  ["malformed body", { body: "malformed", events: 8 }],
];

/** CPU time of `pid` while `work` runs so many requests. */
const timed = async (kind: string, pid: number, work: () => Promise<number>): Promise<CpuRow> => {
  const before = cpuTimeMs(pid) ?? Number.NaN;
  const requests = await work();
  const usedMs = (cpuTimeMs(pid) ?? Number.NaN) - before;
  return { kind, requests, cpuMsPerRequest: rounded(usedMs / requests, 2) };
};

const askAdmin = async ({ worker, adminToken }: FullEdge, times: number): Promise<number> => {
  for (let asked = 0; asked < times; asked += 1) {
    const answer = await fetch(`${worker.url}/admin/v1/openapi.json`, {
      headers: { authorization: `Bearer ${adminToken}` },
    });
    if (!answer.ok) throw new Error(`the admin API answered ${answer.status}`);
    await answer.arrayBuffer();
  }
  return times;
};

const deliver = async ({ account, apiKey }: FullEdge, batches: number): Promise<number> => {
  const key = await keyOf(account);
  for (let batch = 0; batch < batches; batch += 1) {
    const records = Array.from({ length: RECORDS_OF_BATCH }, (_, index) => {
      const requestId = `req_cpu_${batch}_${index}`;
      const headers = { "x-lockgate-request-id": requestId, "x-lockgate-key-id": apiKey.id };
      return recordOf(headers, account.agent, 100, Date.now());
    });
    const status = await postUsage(
      account,
      key,
      records.flatMap((record) => record ?? []),
    );
    if (status !== 204) throw new Error(`a batch of usage got ${status}`);
  }
  return batches;
};

/** All kinds, each for about `forMs`. */
export const measureCpu = async (
  edge: FullEdge,
  run: (load: EdgeLoad) => Promise<EdgeSample>,
  forMs: number,
): Promise<CpuRow[]> => {
  const { pid = Number.NaN, url, key } = edge;
  const rows: CpuRow[] = [];
  for (const [name, { body, events }] of kinds) {
    const load = { url, key, connections: CONNECTIONS, forMs, pauseMs: 0, body, events, paceMs: 0 };
    await run({ ...load, forMs: 0 });
    rows.push(await timed(name, pid, async () => (await run(load)).requests));
  }
  const batches = Math.max(5, Math.round(forMs / 50));
  rows.push(await timed(`${RECORDS_OF_BATCH} usage records`, pid, () => deliver(edge, batches)));
  rows.push(await timed("admin API, OpenAPI document", pid, () => askAdmin(edge, batches)));
  return rows;
};
