import assert from "node:assert/strict";
import test from "ava";
import fc from "fast-check";
import { parseCoreList, readAllowedCpus, readPhysicalCores } from "../../gpu-agent/src/topology.ts";

/** A reader of these files alone. */
const reader =
  (files: Readonly<Record<string, string>>) =>
  (path: string): string => {
    const text = files[path];
    if (text === undefined) throw Object.assign(new Error("no such file"), { code: "ENOENT" });
    return text;
  };

interface Machine {
  readonly packages: number;
  readonly coresPerPackage: number;
  readonly threadsPerCore: number;
}

/** sysfs of a machine that numbers first all first threads, package by package, then all second threads, as Linux does. */
const sysfs = ({ packages, coresPerPackage, threadsPerCore }: Machine, withNodes = true): Record<string, string> => {
  const cores = packages * coresPerPackage;
  const files: Record<string, string> = {};
  for (let core = 0; core < cores; core++) {
    const threads = Array.from({ length: threadsPerCore }, (_, thread) => core + thread * cores);
    for (const cpu of threads) {
      const folder = `/sys/devices/system/cpu/cpu${cpu}/topology`;
      files[`${folder}/physical_package_id`] = `${Math.floor(core / coresPerPackage)}\n`;
      files[`${folder}/core_id`] = `${core % coresPerPackage}\n`;
      files[`${folder}/thread_siblings_list`] = `${threads.join(",")}\n`;
    }
  }
  if (!withNodes) return files;
  files["/sys/devices/system/node/online"] = `0-${packages - 1}\n`;
  for (let node = 0; node < packages; node++) {
    const first = Array.from({ length: coresPerPackage }, (_, core) => node * coresPerPackage + core);
    const cpus = first.flatMap((core) => Array.from({ length: threadsPerCore }, (_, thread) => core + thread * cores));
    files[`/sys/devices/system/node/node${node}/cpulist`] = `${cpus.join(",")}\n`;
  }
  return files;
};

const cpusOf = ({ packages, coresPerPackage, threadsPerCore }: Machine): number[] =>
  Array.from({ length: packages * coresPerPackage * threadsPerCore }, (_, cpu) => cpu);

test("hardware threads of a core are one group, and packages are not mixed", (t) => {
  const machine = { packages: 2, coresPerPackage: 2, threadsPerCore: 2 };
  for (const withNodes of [true, false]) {
    t.deepEqual(readPhysicalCores(reader(sysfs(machine, withNodes)), cpusOf(machine)), [
      [0, 4],
      [1, 5],
      [2, 6],
      [3, 7],
    ]);
  }
});

test("CPUs that are numbered across packages are sorted by package, then by node", (t) => {
  const files: Record<string, string> = { "/sys/devices/system/node/online": "0-1" };
  const cpus = [
    { cpu: 0, package: 1, core: 0 },
    { cpu: 1, package: 0, core: 1 },
    { cpu: 2, package: 1, core: 1 },
    { cpu: 3, package: 0, core: 0 },
  ];
  for (const { cpu, package: inPackage, core } of cpus) {
    const folder = `/sys/devices/system/cpu/cpu${cpu}/topology`;
    files[`${folder}/physical_package_id`] = String(inPackage);
    files[`${folder}/core_id`] = String(core);
    files[`${folder}/thread_siblings_list`] = String(cpu);
  }
  t.deepEqual(readPhysicalCores(reader(files), [0, 1, 2, 3]), [[3], [1], [0], [2]]);
  // Sub-NUMA: CPU 1 is on the first node of its package.
  const nodes = { "/sys/devices/system/node/node0/cpulist": "1,2", "/sys/devices/system/node/node1/cpulist": "0,3" };
  t.deepEqual(readPhysicalCores(reader({ ...files, ...nodes }), [0, 1, 2, 3]), [[1], [3], [2], [0]]);
});

test("where a CPU's files are missing or make no sense there is no topology", (t) => {
  const machine = { packages: 1, coresPerPackage: 2, threadsPerCore: 1 };
  const files = sysfs(machine);
  t.is(readPhysicalCores(reader({}), [0, 1]), undefined);
  t.is(readPhysicalCores(reader(files), [0, 1, 2]), undefined);
  for (const [file, text] of [
    ["core_id", "none"],
    ["physical_package_id", ""],
    ["thread_siblings_list", "0"],
    ["thread_siblings_list", "x"],
  ] as const) {
    t.is(
      readPhysicalCores(reader({ ...files, [`/sys/devices/system/cpu/cpu1/topology/${file}`]: text }), [0, 1]),
      undefined,
    );
  }
});

test("property: every allowed CPU is in exactly one core, with its siblings alone", (t) => {
  const machines = fc.record({
    packages: fc.integer({ min: 1, max: 4 }),
    coresPerPackage: fc.integer({ min: 1, max: 8 }),
    threadsPerCore: fc.integer({ min: 1, max: 4 }),
  });
  t.notThrows(() =>
    fc.assert(
      fc.property(
        machines.chain((machine) => fc.tuple(fc.constant(machine), fc.shuffledSubarray(cpusOf(machine)))),
        ([machine, allowed]) => {
          const groups = readPhysicalCores(reader(sysfs(machine)), allowed) ?? [];
          assert.deepEqual(
            groups.flat().toSorted((a, b) => a - b),
            allowed.toSorted((a, b) => a - b),
          );
          const cores = machine.packages * machine.coresPerPackage;
          for (const group of groups) assert.equal(new Set(group.map((cpu) => cpu % cores)).size, 1);
          assert.equal(groups.length, new Set(allowed.map((cpu) => cpu % cores)).size);
          const packages = groups.map(([cpu = 0]) => Math.floor((cpu % cores) / machine.coresPerPackage));
          assert.deepEqual(
            packages,
            packages.toSorted((a, b) => a - b),
          );
        },
      ),
    ),
  );
});

test("the CPUs that this process may use are read from its status; none where it does not say", (t) => {
  const status = "Name:\tnode\nCpus_allowed:\t00f1\nCpus_allowed_list:\t0,4-7\nMems_allowed_list:\t0\n";
  t.deepEqual(readAllowedCpus(reader({ "/proc/self/status": status })), [0, 4, 5, 6, 7]);
  t.deepEqual(readAllowedCpus(reader({ "/proc/self/status": "Name:\tnode\n" })), []);
  t.deepEqual(readAllowedCpus(reader({})), []);
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
