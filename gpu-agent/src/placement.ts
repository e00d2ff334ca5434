/** Which devices and CPU cores each replica gets: pure decisions over what was configured and found. */

export type Placement =
  | { readonly ok: true; readonly devices: ReadonlyArray<readonly string[] | undefined> }
  | { readonly ok: false; readonly message: string };

/**
 * Devices per replica. A configured list is cut evenly, in order, and never shared; without one every replica gets its share of the GPUs
 * that were found (one GPU may serve several), or undefined, which means the CPU, where there is none.
 */
export const placeDevices = (replicas: number, configured: readonly string[], gpus: readonly string[]): Placement => {
  const twice = configured.find((device, at) => configured.indexOf(device) !== at);
  if (twice !== undefined)
    return { ok: false, message: `device ${twice} is named twice; a device belongs to one replica` };
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

/** Disjoint cores per replica; undefined for all where there are fewer cores than replicas. */
export const placeCores = (
  replicas: number,
  cores: readonly number[],
): ReadonlyArray<readonly number[]> | undefined => {
  const each = Math.floor(cores.length / replicas);
  if (each === 0) return undefined;
  return Array.from({ length: replicas }, (_, index) => cores.slice(index * each, (index + 1) * each));
};

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
