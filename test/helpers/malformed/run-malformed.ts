/**
 * Sends so many malformed requests to a real edge and says what came of them. A request hangs on the seed and its number alone, whatever is
 * sent beside it.
 *
 * Three clients of three kinds: bare bytes on a connection each, well-framed requests on connections that are kept, and fetch().
 */
import { readFile } from "node:fs/promises";
import type { EdgeUnderTest } from "../edge-worker.ts";
import { type RawAnswer, RawConnection, sendRaw } from "../raw-http.ts";
import { seededRandom } from "../seeded-random.ts";
import { Draw } from "./draw.ts";
import { bytesOf, drawFramed, type Framed } from "./framed-requests.ts";
import { type MalformedWorld, makeMalformedWorld } from "./malformed-world.ts";
import { drawWild } from "./wild-bytes.ts";

const LANES = 16;
const WILD_SHARE = 0.25;
const FETCH_SHARE = 0.1;
/** Of all: what comes before the first look at the memory. */
const WARM_UP_SHARE = 0.2;
const MAX_NAMED_FAULTS = 20;
/**
 * What the runtime's processes may hold at the end. One with a worker that answers `{}` and nothing else fills up to about 330 MB within
 * 60,000 requests and stays there; a leak of a few KB a request goes beyond this bound in 100,000.
 */
export const MAX_RESIDENT_BYTES = 512 * 1024 * 1024;

export interface MalformedReport {
  readonly sent: number;
  /** Kind to how many. */
  readonly kinds: Readonly<Record<string, number>>;
  /** Status to how many; none: a connection that was closed without an answer. */
  readonly statuses: Readonly<Record<string, number>>;
  /** What should not have been, the first few in words. */
  readonly faults: readonly string[];
  /** Requests that came to an agent. */
  readonly reached: number;
  /** Rows of the ledger's tables, objects, and keys in all, before and after. */
  readonly before: Readonly<Record<string, number>>;
  readonly after: Readonly<Record<string, number>>;
  /** Resident memory of the edge's processes after the warm-up and at the end. */
  readonly warmBytes: number;
  readonly endBytes: number;
  readonly seconds: number;
}

const residentBytes = async (pids: readonly number[]): Promise<number> => {
  const texts = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/status`, "utf8")));
  return texts.reduce((sum, text) => sum + Number(/VmRSS:\s+(\d+) kB/.exec(text)?.[1] ?? 0) * 1024, 0);
};

const tables = ["turns", "usage_daily", "usage_monthly", "lost_requests", "tenants", "api_keys", "audit_log"];

const countsOf = async ({ worker }: EdgeUnderTest): Promise<Record<string, number>> => {
  const counts: Record<string, number> = {
    KeyGuard: await worker.objectCount("KeyGuard"),
    Fleet: await worker.objectCount("Fleet"),
  };
  for (const table of tables) {
    counts[table] = (await worker.ledger.prepare(`SELECT count(*) AS n FROM ${table}`).first<number>("n")) ?? -1;
  }
  return counts;
};

/** What is wrong with the answers to something that must be refused; undefined if nothing is. */
const faultOf = (answers: readonly RawAnswer[], isPublic: boolean, isWild: boolean): string | undefined => {
  for (const { status, headers, body } of answers) {
    const isFine = (status >= 400 && status < 500) || (isPublic && status < 300) || (isWild && status === 501);
    if (!isFine) return `status ${status}`;
    if (/worker\.js|\bat .+:\d+:\d+|127\.0\.0\.1/.test(body.toString())) return "shows what is inside";
    if (headers.has("x-request-id") && headers.get("x-content-type-options") !== "nosniff")
      return "without its headers";
  }
  return undefined;
};

/** By fetch(), for what that can send; undefined for the rest. */
const byFetch = async (url: string, { method, target, fields, body }: Framed): Promise<RawAnswer[] | undefined> => {
  let request: Request;
  try {
    if (fields.some(([name]) => name === "host")) return undefined;
    const init = { method, headers: [...fields] as [string, string][], ...(body === undefined ? {} : { body }) };
    request = new Request(`${url}${target}`, { ...init, redirect: "manual" });
  } catch {
    return undefined;
  }
  const response = await fetch(request);
  const headers = new Map([...response.headers]);
  return [{ status: response.status, headers, body: Buffer.from(await response.arrayBuffer()) }];
};

/** Sends `count` of them. */
export const runMalformed = async (edge: EdgeUnderTest, seed: number, count: number): Promise<MalformedReport> => {
  const world: MalformedWorld = await makeMalformedWorld(edge);
  const kinds: Record<string, number> = {};
  const statuses: Record<string, number> = {};
  const faults: string[] = [];
  const reachedBefore = edge.agents.reduce((sum, { requests }) => sum + requests.length, 0);
  const before = await countsOf(edge);
  const startedAtMs = Date.now();
  let next = 0;

  const sendOne = async (index: number, connection: RawConnection): Promise<void> => {
    const draw = new Draw(seededRandom(seed + index * 7_919));
    let kind: string;
    let bytes: Buffer;
    let answers: readonly RawAnswer[];
    let isPublic = false;
    const isWild = draw.chance(WILD_SHARE);
    if (isWild) {
      ({ kind, bytes } = drawWild(draw, world));
      answers = await sendRaw(edge.url, bytes);
    } else {
      const framed = await drawFramed(draw, world);
      ({ kind } = framed);
      bytes = bytesOf(framed);
      isPublic = framed.isPublic === true;
      const fetched = draw.chance(FETCH_SHARE) ? await byFetch(edge.url, framed) : undefined;
      answers = fetched ?? [await connection.ask(bytes, framed.method === "HEAD")];
    }
    kinds[kind] = (kinds[kind] ?? 0) + 1;
    for (const { status } of answers) statuses[status] = (statuses[status] ?? 0) + 1;
    if (answers.length === 0) statuses.none = (statuses.none ?? 0) + 1;
    const fault = faultOf(answers, isPublic, isWild);
    if (fault !== undefined) {
      faults.push(`#${index} ${kind}: ${fault}: ${JSON.stringify(bytes.toString("latin1").slice(0, 400))}`);
    }
  };

  const sendUpTo = async (end: number): Promise<void> => {
    const lane = async (): Promise<void> => {
      const connection = new RawConnection(edge.url);
      while (next < end && faults.length < MAX_NAMED_FAULTS) {
        const index = next++;
        try {
          await sendOne(index, connection);
        } catch (error) {
          faults.push(`#${index}: ${error instanceof Error ? error.message : "unknown"}`);
          connection.close();
        }
      }
      connection.close();
    };
    await Promise.all(Array.from({ length: LANES }, lane));
  };

  await sendUpTo(Math.floor(count * WARM_UP_SHARE));
  const warmBytes = await residentBytes(edge.worker.pids);
  await sendUpTo(count);
  return {
    sent: next,
    kinds,
    statuses,
    faults,
    reached: edge.agents.reduce((sum, { requests }) => sum + requests.length, 0) - reachedBefore,
    before,
    after: await countsOf(edge),
    warmBytes,
    endBytes: await residentBytes(edge.worker.pids),
    seconds: (Date.now() - startedAtMs) / 1000,
  };
};

/** Whether a run of `count` is as it should be. */
export const isClean = ({ sent, faults, reached, before, after, endBytes }: MalformedReport, count: number) =>
  sent === count &&
  faults.length === 0 &&
  reached === 0 &&
  JSON.stringify(before) === JSON.stringify(after) &&
  endBytes < MAX_RESIDENT_BYTES;
