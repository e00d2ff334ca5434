import assert from "node:assert/strict";
import test from "ava";
import fc from "fast-check";
import { parseCoreList, placeCores, placeDevices } from "../../gpu-agent/src/placement.ts";

const gpus = (count: number) => Array.from({ length: count }, (_, index) => `CUDA${index}`);

test("without GPUs and without a list every replica runs on the CPU", (t) => {
  t.deepEqual(placeDevices(2, [], []), { ok: true, devices: [undefined, undefined] });
});

test("found GPUs are shared out in order, one group a replica", (t) => {
  t.deepEqual(placeDevices(1, [], gpus(2)), { ok: true, devices: [["CUDA0", "CUDA1"]] });
  t.deepEqual(placeDevices(2, [], gpus(2)), { ok: true, devices: [["CUDA0"], ["CUDA1"]] });
  t.deepEqual(placeDevices(2, [], gpus(5)), {
    ok: true,
    devices: [
      ["CUDA0", "CUDA1"],
      ["CUDA2", "CUDA3"],
    ],
  });
});

test("with fewer GPUs than replicas a GPU serves several", (t) => {
  t.deepEqual(placeDevices(3, [], gpus(2)), { ok: true, devices: [["CUDA0"], ["CUDA1"], ["CUDA0"]] });
});

test("a configured list is cut evenly and in order, whatever was found", (t) => {
  t.deepEqual(placeDevices(2, ["CUDA3", "CUDA1", "CPU", "CUDA0"], gpus(8)), {
    ok: true,
    devices: [
      ["CUDA3", "CUDA1"],
      ["CPU", "CUDA0"],
    ],
  });
});

test("a configured list that cannot be cut evenly is refused in words that name it", (t) => {
  for (const [replicas, list] of [
    [2, gpus(3)],
    [4, gpus(2)],
  ] as const) {
    const placement = placeDevices(replicas, list, gpus(8));
    t.true(!placement.ok && placement.message.includes(list.join(", ")));
  }
});

test("a device that is named twice is refused", (t) => {
  const placement = placeDevices(2, ["CUDA0", "CUDA1", "CUDA2", "CUDA1"], gpus(4));
  t.true(!placement.ok && placement.message.includes("CUDA1"));
});

test("cores are cut into equal shares, and a rest is left free", (t) => {
  t.deepEqual(placeCores(1, [0, 1]), [[0, 1]]);
  t.deepEqual(placeCores(2, [4, 5, 6, 7, 8]), [
    [4, 5],
    [6, 7],
  ]);
});

test("with fewer cores than replicas none is pinned", (t) => {
  t.is(placeCores(3, [0, 1]), undefined);
  t.is(placeCores(1, []), undefined);
});

test("property: no core belongs to two replicas, each has as many, and all are among those allowed", (t) => {
  t.notThrows(() =>
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8 }), fc.uniqueArray(fc.nat(255)), (replicas, cores) => {
        const placed = placeCores(replicas, cores);
        if (placed === undefined) return assert.ok(cores.length < replicas);
        assert.equal(placed.length, replicas);
        assert.equal(new Set(placed.map((own) => own.length)).size, 1);
        assert.equal(new Set(placed.flat()).size, placed.flat().length);
        assert.ok(placed.flat().every((core) => cores.includes(core)));
      }),
    ),
  );
});

test("a list of cores is read as the kernel writes it", (t) => {
  t.deepEqual(parseCoreList("0-3,8"), [0, 1, 2, 3, 8]);
  t.deepEqual(parseCoreList("0"), [0]);
  t.deepEqual(parseCoreList(" 5-5,7 \n"), [5, 7]);
});

test("anything else is no list of cores", (t) => {
  for (const text of ["", ",", "1,", "a", "1-", "-1", "1-2-3", "1 2", "0x1", "12345", "3-1"]) {
    t.is(parseCoreList(text), undefined, text);
  }
});
