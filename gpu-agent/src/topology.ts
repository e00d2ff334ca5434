/**
 * Which of the allowed CPUs are the same physical core, and in which order cores lie near each other: from Linux's sysfs
 * (/sys/devices/system/cpu/cpu<n>/topology, /sys/devices/system/node). Pure but for the file reader that is passed in.
 *
 * Nothing is decided here; placement.ts does. Where sysfs does not tell, there is no topology.
 */

/** Reads a small text file; throws where it cannot. */
export type ReadText = (path: string) => string;

/** `0-3,8` as 0, 1, 2, 3, 8 (the kernel's list format, proc(5)); undefined when it does not parse. */
export const parseCoreList = (text: string): number[] | undefined => {
  const cores: number[] = [];
  for (const part of text.trim().split(",")) {
    const match = /^(\d{1,4})(?:-(\d{1,4}))?$/.exec(part);
    if (match === null) return undefined;
    const first = Number(match[1]);
    const last = Number(match[2] ?? first);
    if (last < first) return undefined;
    for (let core = first; core <= last; core++) cores.push(core);
  }
  return cores;
};

/** CPUs that this process may use; empty where the kernel does not say. */
export const readAllowedCpus = (readText: ReadText): number[] => {
  try {
    const list = /^Cpus_allowed_list:\s*(\S+)$/m.exec(readText("/proc/self/status"))?.[1];
    return (list === undefined ? undefined : parseCoreList(list)) ?? [];
  } catch {
    return [];
  }
};

/** NUMA node of each CPU; empty where there are none. */
const readNodes = (readText: ReadText): ReadonlyMap<number, number> => {
  const nodeOf = new Map<number, number>();
  try {
    for (const node of parseCoreList(readText("/sys/devices/system/node/online")) ?? []) {
      const cpus = parseCoreList(readText(`/sys/devices/system/node/node${node}/cpulist`)) ?? [];
      for (const cpu of cpus) nodeOf.set(cpu, node);
    }
  } catch {
    // A machine with one node may have no such folder; a node without CPUs has an empty list.
  }
  return nodeOf;
};

const readNumber = (readText: ReadText, path: string): number => {
  const text = readText(path).trim();
  if (!/^-?\d+$/.test(text)) throw new Error(`${path} holds no number`);
  return Number(text);
};

interface Core {
  readonly package: number;
  readonly node: number;
  readonly core: number;
  readonly cpus: number[];
}

/**
 * The physical cores among `allowed`, each as its allowed CPUs (hardware threads) in rising order; by package, then NUMA node, then
 * core, so that neighbours in the list share caches and memory. Undefined where the topology cannot be read for all of them.
 */
export const readPhysicalCores = (
  readText: ReadText,
  allowed: readonly number[],
): ReadonlyArray<readonly number[]> | undefined => {
  const nodeOf = readNodes(readText);
  const cores = new Map<string, Core>();
  try {
    for (const cpu of [...allowed].sort((a, b) => a - b)) {
      const folder = `/sys/devices/system/cpu/cpu${cpu}/topology`;
      const inPackage = readNumber(readText, `${folder}/physical_package_id`);
      const id = readNumber(readText, `${folder}/core_id`);
      const siblings = parseCoreList(readText(`${folder}/thread_siblings_list`));
      if (siblings === undefined || !siblings.includes(cpu)) return undefined;
      // Core ids may repeat in the dies of a package; the siblings tell cores apart.
      const key = siblings.join();
      const core = cores.get(key) ?? { package: inPackage, node: nodeOf.get(cpu) ?? 0, core: id, cpus: [] };
      core.cpus.push(cpu);
      cores.set(key, core);
    }
  } catch {
    return undefined;
  }
  const near = (a: Core, b: Core): number =>
    a.package - b.package || a.node - b.node || a.core - b.core || (a.cpus[0] ?? 0) - (b.cpus[0] ?? 0);
  return [...cores.values()].sort(near).map(({ cpus }) => cpus);
};
