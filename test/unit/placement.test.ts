import assert from "node:assert/strict";
import test from "ava";
import fc from "fast-check";
import { placeCores, placeDevices, runsOnCpu, viewDevices } from "../../gpu-agent/src/placement.ts";

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

test("a device in two replicas is refused with the names of both", (t) => {
  for (const [replicas, list, first, second] of [
    [2, ["CUDA0", "CUDA1", "CUDA2", "CUDA1"], 0, 1],
    [3, ["CUDA0", "CUDA1", "CUDA0"], 0, 2],
    [2, ["CUDA0", "CUDA0", "CUDA0"], 0, 1],
  ] as const) {
    const placement = placeDevices(replicas, list, gpus(4));
    const device = replicas === 2 && list.length === 4 ? "CUDA1" : "CUDA0";
    t.is(
      placement.ok ? "" : placement.message,
      `device ${device} is named twice, for replica ${first} and for replica ${second}; a device belongs to one replica, once`,
    );
  }
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

test("each replica gets one CPU of each of its physical cores, neighbours together", (t) => {
  const cores = [
    [0, 4],
    [1, 5],
    [2, 6],
    [3, 7],
  ];
  const all = cores.flat();
  t.deepEqual(placeCores(2, all, cores), [
    [0, 1],
    [2, 3],
  ]);
  t.deepEqual(placeCores(3, all, cores), [[0], [1], [2]]);
});

test("with fewer physical cores than replicas, or no topology, the CPUs are cut", (t) => {
  t.deepEqual(
    placeCores(
      4,
      [0, 1, 2, 3],
      [
        [0, 2],
        [1, 3],
      ],
    ),
    [[0], [1], [2], [3]],
  );
  t.deepEqual(placeCores(2, [0, 1, 2, 3], undefined), [
    [0, 1],
    [2, 3],
  ]);
});

test("property: no physical core belongs to two replicas where there are enough of them", (t) => {
  t.notThrows(() =>
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: 1, max: 32 }),
        fc.integer({ min: 1, max: 4 }),
        (replicas, count, threads) => {
          fc.pre(count >= replicas);
          const cores = Array.from({ length: count }, (_, core) =>
            Array.from({ length: threads }, (_, thread) => core + thread * count),
          );
          const placed = placeCores(replicas, cores.flat(), cores) ?? [];
          const used = placed.flat().map((cpu) => cpu % count);
          assert.equal(new Set(used).size, used.length);
          assert.ok(placed.every((own) => own.length === Math.floor(count / replicas)));
        },
      ),
    ),
  );
});

test("only a replica without devices, or with the CPU as its device, runs on the CPU", (t) => {
  t.true(runsOnCpu(undefined));
  t.true(runsOnCpu(["CPU"]));
  t.false(runsOnCpu(["CUDA0"]));
});

test("a replica's process sees its own GPUs alone, counted anew", (t) => {
  t.deepEqual(viewDevices(["CUDA2", "CUDA3"], undefined), {
    names: ["CUDA0", "CUDA1"],
    cudaVisibleDevices: "2,3",
  });
  t.deepEqual(viewDevices(["CUDA10"], ""), { names: ["CUDA0"], cudaVisibleDevices: "10" });
});

test("what the agent itself may see is what its numbers count in", (t) => {
  t.deepEqual(viewDevices(["CUDA1"], "4, GPU-3f2a,6"), { names: ["CUDA0"], cudaVisibleDevices: "GPU-3f2a" });
  t.deepEqual(viewDevices(["CUDA3"], "4,5"), { names: ["CUDA3"], cudaVisibleDevices: undefined });
});

test("a GPU that was not found keeps the name that was configured, so that it is refused by it", (t) => {
  t.deepEqual(viewDevices(["CUDA7"], undefined, gpus(2)), { names: ["CUDA7"], cudaVisibleDevices: undefined });
  t.deepEqual(viewDevices(["CUDA1"], undefined, gpus(2)), { names: ["CUDA0"], cudaVisibleDevices: "1" });
});

test("other devices keep their names and change nothing", (t) => {
  for (const devices of [undefined, [], ["CPU"], ["Vulkan0"], ["CUDA0", "CPU"], ["0"]]) {
    t.deepEqual(viewDevices(devices, "1"), { names: devices, cudaVisibleDevices: undefined });
  }
});
