import test from "ava";
import { cpuUsPerRequest, type EdgeMeasured, edgeRows, formatEdgeRows, stepRows } from "../bench/edge-figures.ts";
import { eventAt } from "../bench/edge-load.ts";
import { type Arrival, isComplete, readAnswer } from "../bench/edge-response.ts";
import { pickSeed, seededRandom } from "../helpers/seeded-random.ts";

const measured = (more: Partial<EdgeMeasured> = {}): EdgeMeasured => ({
  requests: 10,
  firstEventMs: [1],
  eventDelayMs: { p50: 0.1, p99: 1 },
  elapsedMs: 1_000,
  cpuMs: Number.NaN,
  ...more,
});

test("what a place adds is the median of what it adds in each round, so that a slow round counts for all alike", (t) => {
  const rounds = (firsts: readonly number[], rest: Partial<EdgeMeasured> = {}) =>
    firsts.map((first) => measured({ firstEventMs: [first, first, first + 100], ...rest }));
  const [direct, bare, edge] = edgeRows({
    stream: "8 events",
    connections: 1,
    places: {
      direct: rounds([1, 10, 2]),
      bare: rounds([3, 12, 3], { cpuMs: 5 }),
      edge: rounds([4, 13, 5], { cpuMs: 20, eventDelayMs: { p50: 0.4, p99: 1 } }),
    },
  });
  t.like(direct, { addedFirstEventMs: null, ofBare: null, cpuUsPerRequest: null, requestsPerS: 10, requests: 30 });
  t.like(bare, { addedFirstEventMs: 2, ofBare: null, addedEventDelayMs: 0, cpuUsPerRequest: 500 });
  t.like(edge, { addedFirstEventMs: 3, ofBare: 1.5, addedEventDelayMs: 0.3, cpuUsPerRequest: 2_000 });
});

test("a step costs what it adds to the step below it", (t) => {
  const rows = stepRows(1, [
    { step: "bare", rounds: [measured({ cpuMs: 5 })] },
    { step: "identify", rounds: [measured({ cpuMs: 7, firstEventMs: [1.25] })] },
  ]);
  t.like(rows[0], { cpuUsPerRequest: 500, addedCpuUs: null, addedFirstEventMs: null });
  t.like(rows[1], { cpuUsPerRequest: 700, addedCpuUs: 200, addedFirstEventMs: 0.25 });
});

test("CPU time is that of all rounds over all their requests", (t) => {
  t.is(cpuUsPerRequest([measured({ cpuMs: 1, requests: 1 }), measured({ cpuMs: 1, requests: 3 })]), 500);
});

test("streams of one event have no delays, and the table says so", (t) => {
  const none = [measured({ eventDelayMs: null })];
  const rows = edgeRows({ stream: "1", connections: 1, places: { direct: none, bare: none, edge: none } });
  t.is(rows[2]?.eventDelayP50Ms, null);
  t.regex(formatEdgeRows(rows), /^1 +1 +edge .* - +- /m);
});

const HEAD = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nx-last: 10\r\n\r\n";
const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
const arrive = (pieces: readonly string[]): Arrival[] =>
  pieces.map((piece, at) => ({ atUs: 1_000 + at, bytes: Buffer.from(piece) }));

test("however an answer is cut into chunks and pieces, every event is found, at the piece with the end of its stamp", (t) => {
  const seed = pickSeed();
  t.log(`seed ${seed}`);
  const random = seededRandom(seed);
  const cut = (text: string, most: number): string[] => {
    const pieces: string[] = [];
    for (let at = 0; at < text.length; ) {
      const length = 1 + Math.floor(random() * most);
      pieces.push(text.slice(at, at + length));
      at += length;
    }
    return pieces;
  };
  for (let run = 0; run < 200; run += 1) {
    const body = Array.from({ length: 5 }, (_, at) => eventAt(100 + at)).join("");
    const raw = `${HEAD}${cut(body, 300).map(chunk).join("")}${chunk("")}`;
    const arrivals = arrive(cut(raw, 200));
    for (let seen = 0; seen < arrivals.length; seen += 1) t.false(isComplete(arrivals.slice(0, seen)));
    t.true(isComplete(arrivals));
    const { status, text, events } = readAnswer(arrivals);
    t.is(status, 200);
    t.is(text, body);
    t.deepEqual(
      events.map(({ writtenUs }) => writtenUs),
      [100, 101, 102, 103, 104],
    );
    const cameBy = (arrivedUs: number) =>
      readAnswer([...arrivals.slice(0, arrivedUs - 1_000 + 1), ...arrive([chunk("")])]).events.length;
    for (const [at, { arrivedUs }] of events.entries()) {
      t.true(cameBy(arrivedUs) > at, "it is there by then");
      t.true(cameBy(arrivedUs - 1) <= at, "and not before");
    }
  }
});

test("a head whose last field ends in 0 is no end, and a body of announced length ends with its last byte", (t) => {
  t.false(isComplete(arrive([HEAD])));
  const error = ["HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\n", "{", "a:1"];
  t.false(isComplete(arrive(error.slice(0, 2))));
  t.true(isComplete(arrive(error)));
  t.like(readAnswer(arrive(error)), { status: 400, text: "{a:1", events: [] });
});
