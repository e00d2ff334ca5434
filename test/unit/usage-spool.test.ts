import test from "ava";
import { MAX_REJECT_BYTES, putAside, REJECT_NAME } from "../../gpu-agent/src/usage/reject-file.ts";
import { decodeLine, encodeLine } from "../../gpu-agent/src/usage/spool-line.ts";
import { parsePosition, segmentName, segmentsAmong } from "../../gpu-agent/src/usage/spool-position.ts";
import { READ_BYTES } from "../../gpu-agent/src/usage/spool-reader.ts";
import { FAULT_PAUSE_MS, SYNC_INTERVAL_MS, SYNC_RECORDS } from "../../gpu-agent/src/usage/usage-spool.ts";
import { promiseJobs } from "../helpers/fake-engine.ts";
import { type FaultKind, MemorySpoolFiles } from "../helpers/memory-spool-files.ts";
import { deliverAll, numberOf, openSpool, recordNumber } from "../helpers/usage-records.ts";

const LINE_BYTES = encodeLine(recordNumber(1)).length;

test("a record comes back from its line as it was; any flipped bit is found", (t) => {
  const line = encodeLine(recordNumber(7));
  t.deepEqual(decodeLine(line.subarray(0, -1)), { ok: true, record: recordNumber(7) });
  for (let bit = 0; bit < (line.length - 1) * 8; bit++) {
    const flipped = Buffer.from(line.subarray(0, -1));
    flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    t.false(decodeLine(flipped).ok, `bit ${bit}`);
  }
});

test("a line with the right sum that is no usage record is none", (t) => {
  const other = encodeLine({ ...recordNumber(1), prompt_tokens: -1 });
  t.deepEqual(decodeLine(other.subarray(0, -1)), { ok: false, reason: "not a usage record" });
});

test("segments are found among other names, in order; only a position is a position", (t) => {
  t.deepEqual(segmentsAmong([segmentName(10), "cursor", segmentName(9), "1.usage", `${segmentName(1)}.new`]), [9, 10]);
  t.deepEqual(parsePosition('{"segment":3,"offset":4}'), { segment: 3, offset: 4 });
  for (const bad of ["", "{", "{}", '{"segment":-1,"offset":0}', '{"segment":1,"offset":0,"more":1}', "null"]) {
    t.is(parsePosition(bad), undefined, bad);
  }
});

test("what was appended is with the kernel when append returns, and comes out in order", async (t) => {
  const files = new MemorySpoolFiles();
  const { spool } = await openSpool(files);
  for (const number of [1, 2, 3]) t.true(spool.append(recordNumber(number)));
  files.killProcess();
  const { spool: next } = await openSpool(files);
  t.is(next.backlog, 3);
  t.deepEqual(await deliverAll(next, 2), [1, 2, 3]);
  t.is(next.backlog, 0);
});

test("nothing is delivered again after it was acknowledged, and until then the same comes again", async (t) => {
  const files = new MemorySpoolFiles();
  const { spool } = await openSpool(files);
  for (const number of [1, 2, 3]) spool.append(recordNumber(number));
  const first = await spool.next(2);
  t.deepEqual(await spool.next(2), first);
  if (first.kind !== "records") return t.fail(first.kind);
  t.deepEqual(first.records.map(numberOf), [1, 2]);
  await spool.acknowledge(first.end, 2);
  t.is(spool.backlog, 1);
  files.killProcess();
  t.deepEqual(await deliverAll((await openSpool(files)).spool), [3]);
});

test("segments are begun when one is full, and removed when they are delivered", async (t) => {
  const files = new MemorySpoolFiles();
  const { spool } = await openSpool(files, { segmentBytes: 2 * LINE_BYTES });
  for (const number of [1, 2, 3, 4, 5]) spool.append(recordNumber(number));
  t.deepEqual(segmentsAmong(files.list()), [1, 2, 3]);
  t.deepEqual(await deliverAll(spool), [1, 2, 3, 4, 5]);
  t.deepEqual(segmentsAmong(files.list()), [3]);
  await spool.close();
  t.is(files.openFiles, 0);
});

test("an earlier process's segment is never appended to", async (t) => {
  const files = new MemorySpoolFiles();
  const { spool } = await openSpool(files);
  spool.append(recordNumber(1));
  await deliverAll(spool);
  files.killProcess();
  const before = files.contents[segmentName(1)];
  const { spool: next } = await openSpool(files);
  next.append(recordNumber(2));
  t.is(files.contents[segmentName(1)], before);
  t.deepEqual(await deliverAll(next), [2]);
});

test("records that come while others are read are not passed over, also over the border of a segment", async (t) => {
  const files = new MemorySpoolFiles();
  const { spool } = await openSpool(files, { segmentBytes: 3 * LINE_BYTES });
  spool.append(recordNumber(1));
  let number = 1;
  // Each time the reader waits for the disk, more is written behind its back.
  files.pause = async () => {
    if (number < 20) spool.append(recordNumber(++number));
  };
  const delivered: number[] = [];
  while (delivered.length < 20) delivered.push(...(await deliverAll(spool, 1)));
  t.deepEqual(
    delivered,
    Array.from({ length: 20 }, (_, at) => at + 1),
  );
  t.is(spool.backlog, 0);
});

test("a probe's blank line at the end of a segment hides nothing that is written behind it meanwhile", async (t) => {
  const files = new MemorySpoolFiles();
  const { spool, clock } = await openSpool(files, { segmentBytes: 2 * LINE_BYTES });
  spool.append(recordNumber(1));
  t.deepEqual(await deliverAll(spool), [1]);
  files.faults = [{ at: files.calls.length + 1, kind: "before" }];
  t.false(spool.append(recordNumber(0)));
  await clock.advance(FAULT_PAUSE_MS);
  t.true(spool.takesTurns());
  let isFirst = true;
  files.pause = async () => {
    // One more fits into the segment, behind the blank line; the other begins the next segment.
    if (isFirst) for (const number of [2, 3]) spool.append(recordNumber(number));
    isFirst = false;
  };
  const batch = await spool.next(10);
  t.is(batch.kind, "empty");
  t.deepEqual(await deliverAll(spool), [2, 3]);
});

test("a backlog larger than one read comes out whole", async (t) => {
  const files = new MemorySpoolFiles();
  const { spool } = await openSpool(files, { maxRecords: 10_000 });
  const count = Math.ceil((2.5 * READ_BYTES) / LINE_BYTES);
  for (let number = 1; number <= count; number++) spool.append(recordNumber(number));
  const delivered = await deliverAll(spool, 10_000);
  t.is(delivered.length, count);
  t.true(delivered.every((number, at) => number === at + 1));
});

test("a torn last line is cut off at the start, and only that", async (t) => {
  const whole = Buffer.concat([1, 2].map((number) => encodeLine(recordNumber(number))));
  for (let torn = 1; torn < LINE_BYTES; torn++) {
    const files = new MemorySpoolFiles();
    files.put(segmentName(4), Buffer.concat([whole, encodeLine(recordNumber(3)).subarray(0, torn)]));
    const { spool, logged } = await openSpool(files);
    t.deepEqual(logged, ["usage_spool_tail_cut"]);
    t.is(files.contents[segmentName(4)], whole.toString());
    t.is(spool.backlog, 2);
    spool.append(recordNumber(3));
    t.deepEqual(await deliverAll(spool), [1, 2, 3]);
  }
});

test("a damaged line in the middle goes to the reject file, and the others are delivered", async (t) => {
  const files = new MemorySpoolFiles();
  const lines = [1, 2, 3].map((number) => encodeLine(recordNumber(number)).toString());
  lines[1] = (lines[1] ?? "").replace('"completion_tokens":2', '"completion_tokens":9');
  files.put(segmentName(1), lines.join(""));
  const { spool } = await openSpool(files);
  t.is(spool.backlog, 3);
  t.deepEqual(await deliverAll(spool), [1, 3]);
  t.is(spool.backlog, 0);
  const rejected = JSON.parse(files.contents[REJECT_NAME] ?? "") as { reason: string; line_base64: string };
  t.is(rejected.reason, "checksum");
  t.is(`${Buffer.from(rejected.line_base64, "base64")}\n`, lines[1]);
});

test("what is no line at all is damaged too: a torn end before a later segment, a line without an end", async (t) => {
  const files = new MemorySpoolFiles();
  files.put(segmentName(1), Buffer.concat([encodeLine(recordNumber(1)), Buffer.from("torn")]));
  files.put(segmentName(2), Buffer.concat([Buffer.alloc(READ_BYTES + 5, 0x61), Buffer.from("\n")]));
  files.put(segmentName(3), encodeLine(recordNumber(2)));
  const { spool } = await openSpool(files);
  t.deepEqual(await deliverAll(spool), [1, 2]);
  t.is(spool.backlog, 0);
});

test("without its cursor, or with one that is damaged, everything that is there is delivered again", async (t) => {
  for (const damaged of ["", "{", '{"segment":"a"}']) {
    const files = new MemorySpoolFiles();
    const { spool } = await openSpool(files);
    for (const number of [1, 2]) spool.append(recordNumber(number));
    await deliverAll(spool);
    files.killProcess();
    files.put("cursor", damaged);
    const { spool: next, logged } = await openSpool(files);
    t.deepEqual(await deliverAll(next), [1, 2]);
    t.deepEqual(logged, damaged === "" ? [] : ["usage_cursor_damaged"]);
  }
});

test("a full spool reserves no place; one that is given back or acknowledged can be taken again", async (t) => {
  const { spool } = await openSpool(new MemorySpoolFiles(), { maxRecords: 2 });
  const [first, second] = [spool.reserve(), spool.reserve()];
  t.is(spool.reserve(), undefined);
  first?.();
  first?.();
  const third = spool.reserve();
  t.truthy(third);
  t.is(spool.reserve(), undefined);
  for (const [number, giveBack] of [
    [1, second],
    [2, third],
  ] as const) {
    spool.append(recordNumber(number));
    giveBack?.();
  }
  t.is(spool.reserve(), undefined);
  t.false(spool.takesTurns());
  await deliverAll(spool);
  t.truthy(spool.reserve());
});

test("the bound counts what an earlier process left", async (t) => {
  const files = new MemorySpoolFiles();
  files.put(segmentName(1), Buffer.concat([1, 2].map((number) => encodeLine(recordNumber(number)))));
  t.is((await openSpool(files, { maxRecords: 2 })).spool.reserve(), undefined);
  t.truthy((await openSpool(files, { maxRecords: 3 })).spool.reserve());
});

test("records are synced in groups: after the interval, or when there are many", async (t) => {
  const files = new MemorySpoolFiles();
  const { spool, clock } = await openSpool(files);
  const syncs = () => files.calls.filter((call) => call === "sync").length;
  for (let number = 1; number < SYNC_RECORDS; number++) spool.append(recordNumber(number));
  await clock.advance(SYNC_INTERVAL_MS - 1);
  t.is(syncs(), 0);
  await clock.advance(1);
  t.is(syncs(), 1);
  await clock.advance(10 * SYNC_INTERVAL_MS);
  t.is(syncs(), 1);
  for (let number = 0; number < SYNC_RECORDS; number++) spool.append(recordNumber(number));
  await promiseJobs();
  t.is(syncs(), 2);
});

test("what was synced outlives a loss of power", async (t) => {
  for (const share of [0, 0.3, 1]) {
    for (const keepsNames of [false, true]) {
      const files = new MemorySpoolFiles();
      const { spool } = await openSpool(files);
      for (const number of [1, 2]) spool.append(recordNumber(number));
      t.true(await spool.sync());
      for (const number of [3, 4]) spool.append(recordNumber(number));
      files.losePower(share, keepsNames);
      const delivered = await deliverAll((await openSpool(files)).spool);
      t.deepEqual(delivered, [1, 2, 3, 4].slice(0, delivered.length));
      t.true(delivered.length >= 2);
    }
  }
});

for (const kind of ["before", "partial", "after"] as const satisfies readonly FaultKind[]) {
  test(`a write that fails (${kind}) leaves no trace, refuses turns for a pause, and then the disk is probed`, async (t) => {
    const files = new MemorySpoolFiles();
    const { spool, clock, logged } = await openSpool(files);
    spool.append(recordNumber(1));
    const before = files.contents[segmentName(1)];
    files.faults = [{ at: files.calls.length + 1, kind }];
    t.false(spool.append(recordNumber(2)));
    t.is(files.contents[segmentName(1)], before);
    t.deepEqual(logged, ["usage_not_written"]);
    t.is(spool.backlog, 1);
    t.is(spool.reserve(), undefined);
    await clock.advance(FAULT_PAUSE_MS - 1);
    t.is(spool.reserve(), undefined);
    await clock.advance(1);
    files.faults = [{ at: files.calls.length + 1, kind: "before" }];
    t.is(spool.reserve(), undefined);
    await clock.advance(FAULT_PAUSE_MS);
    t.truthy(spool.reserve());
    t.true(spool.append(recordNumber(3)));
    t.deepEqual(await deliverAll(spool), [1, 3]);
    t.is(spool.backlog, 0);
  });
}

test("a write that takes a few bytes at a time is finished", async (t) => {
  const files = new MemorySpoolFiles();
  files.writeBytes = 7;
  const { spool } = await openSpool(files);
  t.true(spool.append(recordNumber(1)));
  files.writeBytes = 0;
  t.false(spool.append(recordNumber(2)));
  files.writeBytes = Number.POSITIVE_INFINITY;
  t.deepEqual(await deliverAll(spool), [1]);
});

test("a segment whose repair fails too is given up: what follows is whole, its torn end is put aside", async (t) => {
  const files = new MemorySpoolFiles();
  const { spool } = await openSpool(files);
  spool.append(recordNumber(1));
  const next = files.calls.length + 1;
  files.faults = [
    { at: next, kind: "partial" },
    { at: next + 1, kind: "before" },
  ];
  t.false(spool.append(recordNumber(2)));
  t.true(spool.append(recordNumber(3)));
  t.deepEqual(await deliverAll(spool), [1, 3]);
  t.regex(files.contents[REJECT_NAME] ?? "", /no line end/);
  t.is(spool.backlog, 0);
});

test("an fsync that fails refuses turns, and is tried again until it succeeds", async (t) => {
  const files = new MemorySpoolFiles();
  const { spool, clock, logged } = await openSpool(files);
  spool.append(recordNumber(1));
  files.faults = [{ at: files.calls.length + 1, kind: "before" }];
  t.false(await spool.sync());
  t.deepEqual(logged, ["usage_not_synced"]);
  t.false(spool.takesTurns());
  files.faults = [];
  await clock.advance(FAULT_PAUSE_MS);
  t.true(spool.takesTurns());
  files.losePower(0, false);
  t.deepEqual(await deliverAll((await openSpool(files)).spool), [1]);
});

test("a cursor that cannot be stored holds nobody up; what it covered comes again after a crash alone", async (t) => {
  const files = new MemorySpoolFiles();
  const { spool, logged } = await openSpool(files);
  for (const number of [1, 2]) spool.append(recordNumber(number));
  const batch = await spool.next(1);
  if (batch.kind !== "records") return t.fail(batch.kind);
  files.faults = [{ at: files.calls.length + 1, kind: "before" }];
  await spool.acknowledge(batch.end, 1);
  t.deepEqual(logged, ["usage_cursor_not_stored"]);
  files.killProcess();
  t.deepEqual(await deliverAll((await openSpool(files)).spool), [1, 2]);
  t.deepEqual(await deliverAll(spool), [2]);
});

test("the reject file has a bound, at which it takes nothing more", async (t) => {
  const files = new MemorySpoolFiles();
  const rejected = { rejected_at_ms: 1, reason: "a test", record: recordNumber(1) };
  const bytes = Buffer.byteLength(JSON.stringify(rejected)) + 1;
  await putAside(files, rejected, 2 * bytes);
  await putAside(files, rejected, 2 * bytes);
  await t.throwsAsync(putAside(files, rejected, 2 * bytes), { message: /is full/ });
  t.is(Buffer.byteLength(files.contents[REJECT_NAME] ?? ""), 2 * bytes);
  t.true(MAX_REJECT_BYTES > bytes);
  t.is(files.openFiles, 0);
});

test("a closed spool takes nothing more and has synced everything", async (t) => {
  const files = new MemorySpoolFiles();
  const { spool } = await openSpool(files);
  spool.append(recordNumber(1));
  await spool.close();
  t.false(spool.append(recordNumber(2)));
  t.is(spool.reserve(), undefined);
  t.is(files.openFiles, 0);
  files.losePower(0, false);
  t.deepEqual(await deliverAll((await openSpool(files)).spool), [1]);
});
