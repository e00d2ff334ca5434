/** Which devices and CPU cores each replica gets: pure decisions over what was configured and found. */

export type Placement =
  | { readonly ok: true; readonly devices: ReadonlyArray<readonly string[] | undefined> }
  | { readonly ok: false; readonly message: string };

/**
 * Devices per replica. A configured list is cut evenly, in order, and never shared; without one every replica gets its share of the GPUs
 * that were found (one GPU may serve several), or undefined, which means the CPU, where there is none.
 */
export const placeDevices = (replicas: number, configured: readonly string[], gpus: readonly string[]): Placement => {
  const at = configured.findIndex((device, place) => configured.indexOf(device) !== place);
  const twice = configured[at];
  if (twice !== undefined) {
    const each = Math.max(1, Math.floor(configured.length / replicas));
    const [first, second] = [configured.indexOf(twice), at].map((place) =>
      Math.min(replicas - 1, Math.floor(place / each)),
    );
    return {
      ok: false,
      message: `device ${twice} is named twice, for replica ${first} and for replica ${second}; a device belongs to one replica, once`,
    };
  }
  if (configured.length > 0 && configured.length % replicas !== 0) {
    return {
      ok: false,
      message: `${configured.length} devices (${configured.join(", ")}) cannot be cut evenly among ${replicas} replicas`,
    };
  }
  const cut = (list: readonly string[], each: number) =>
    Array.from({ length: replicas }, (_, index) => list.slice(index * each, (index + 1) * each));
  if (configured.length > 0) return { ok: true, devices: cut(configured, configured.length / replicas) };
  if (gpus.length === 0) return { ok: true, devices: Array.from({ length: replicas }, () => undefined) };
  if (gpus.length >= replicas) return { ok: true, devices: cut(gpus, Math.floor(gpus.length / replicas)) };
  return { ok: true, devices: Array.from({ length: replicas }, (_, index) => [gpus[index % gpus.length] as string]) };
};

/**
 * Disjoint CPUs per replica, one of each physical core (`cores`, as topology.ts gives them), neighbours together: two threads of one
 * core only slow each other's arithmetic. Where there are fewer cores than replicas, or no topology, the `allowed` CPUs are cut; where
 * those are too few, undefined: nothing is pinned.
 */
export const placeCores = (
  replicas: number,
  allowed: readonly number[],
  cores?: ReadonlyArray<readonly number[]> | undefined,
): ReadonlyArray<readonly number[]> | undefined => {
  const firsts = cores?.flatMap(([first]) => (first === undefined ? [] : [first])) ?? [];
  const cpus = firsts.length >= replicas ? firsts : allowed;
  const each = Math.floor(cpus.length / replicas);
  if (each === 0) return undefined;
  return Array.from({ length: replicas }, (_, index) => cpus.slice(index * each, (index + 1) * each));
};

/** Whether a replica computes on the CPU alone; undefined devices are the CPU, see placeDevices. */
export const runsOnCpu = (devices: readonly string[] | undefined): boolean =>
  devices === undefined || devices.every((device) => device === "CPU");

/** A replica's devices as its own process sees them. */
export interface DeviceView {
  readonly names: readonly string[] | undefined;
  /** CUDA_VISIBLE_DEVICES of its process; undefined: as inherited. */
  readonly cudaVisibleDevices: string | undefined;
}

const cudaName = /^CUDA(\d{1,4})$/;

/**
 * What a replica's process is told of its devices. Where all are `CUDA<n>`, it sees those GPUs alone: nothing in it, and no fault of it,
 * can reach a neighbour's (the driver makes a context of some hundred MB on each GPU that a process merely asks for its memory).
 *
 * llama.cpp and every CUDA program number the GPUs that they see from 0, so the names are counted anew; and `inherited`, the agent's own
 * CUDA_VISIBLE_DEVICES, is what the agent's numbers count in, so its entries (numbers or UUIDs) are handed on. Other names stay as they
 * are, for a backend or an engine that knows what they mean; so do names that are not among the GPUs `found`, for the engine to refuse by
 * the name that was configured.
 */
export const viewDevices = (
  devices: readonly string[] | undefined,
  inherited: string | undefined,
  found?: readonly string[] | undefined,
): DeviceView => {
  if (found !== undefined && devices?.some((device) => !found.includes(device)))
    return { names: devices, cudaVisibleDevices: undefined };
  const numbers = devices?.map((device) => Number(cudaName.exec(device)?.[1] ?? Number.NaN)) ?? [];
  const entries = inherited === undefined || inherited === "" ? undefined : inherited.split(",");
  const visible = numbers.map((number) => (entries === undefined ? String(number) : entries[number]?.trim()));
  if (numbers.length === 0 || numbers.some(Number.isNaN) || visible.includes(undefined))
    return { names: devices, cudaVisibleDevices: undefined };
  return { names: numbers.map((_, at) => `CUDA${at}`), cudaVisibleDevices: visible.join(",") };
};
