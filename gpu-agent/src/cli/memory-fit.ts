/**
 * Whether weights and KV cache fit the memory of the devices that they would go to. Pure.
 *
 * An estimate from below: the engine's work buffers come on top, some hundred MiB for a large model, which is why little room left is
 * "tight". A CPU's weights are mapped from the file and may be paged, so too large for a CPU is slow rather than impossible; who asks
 * decides what that means.
 */
import type { KvType } from "@lockgate/native";
import { DEFAULT_KV_TYPE, kvBytesPerToken, type ModelFacts } from "./model-facts.ts";

/** Less than this part of the free memory left is tight. */
export const TIGHT_ROOM = 0.1;

export const CPU_DEVICE = "CPU";

/** What one replica takes. */
export interface ReplicaNeed {
  /** Tokens of a slot; null: neither configured nor in the file. */
  readonly contextTokens: number | null;
  readonly weightBytes: number;
  /** Null: unknown. */
  readonly kvBytesPerSlot: number | null;
  readonly slots: number;
}

/** What was asked for; undefined means what the engine takes by itself. */
export interface AskedFor {
  readonly slots: number;
  readonly contextTokens: number | undefined;
  readonly kvType: KvType | undefined;
}

export const needOfReplica = (facts: ModelFacts, asked: AskedFor): ReplicaNeed => {
  const contextTokens = asked.contextTokens ?? facts.trainedContext;
  const perToken = kvBytesPerToken(facts, asked.kvType ?? DEFAULT_KV_TYPE);
  return {
    contextTokens,
    weightBytes: facts.weightBytes,
    kvBytesPerSlot: perToken === null || contextTokens === null ? null : perToken * contextTokens,
    slots: asked.slots,
  };
};

export interface MemoryFit {
  /** The devices that these replicas share; layers are spread over them. */
  readonly devices: readonly string[];
  readonly replicas: number;
  /** Weights and KV cache of all of them; weights alone where the KV cache is unknown. */
  readonly needBytes: number;
  readonly freeBytes: number;
  readonly verdict: "fits" | "tight" | "too large" | "unknown";
}

const verdictOf = (needBytes: number, freeBytes: number, kvKnown: boolean): MemoryFit["verdict"] => {
  if (needBytes > freeBytes) return "too large";
  if (!kvKnown) return "unknown";
  return needBytes > freeBytes * (1 - TIGHT_ROOM) ? "tight" : "fits";
};

/** One entry per set of devices. `placements` has the devices of each replica, undefined meaning the CPU; unknown devices have no free bytes. */
export const fitReplicas = (
  need: ReplicaNeed,
  placements: ReadonlyArray<readonly string[] | undefined>,
  freeBytesOf: ReadonlyMap<string, number>,
): MemoryFit[] => {
  const groups = Map.groupBy(placements, (devices) => (devices ?? [CPU_DEVICE]).join("+"));
  return [...groups.values()].map((replicas) => {
    const devices = replicas[0] ?? [CPU_DEVICE];
    const freeBytes = devices.reduce((sum, device) => sum + (freeBytesOf.get(device) ?? 0), 0);
    const needBytes = replicas.length * (need.weightBytes + (need.kvBytesPerSlot ?? 0) * need.slots);
    return {
      devices,
      replicas: replicas.length,
      needBytes,
      freeBytes,
      verdict: verdictOf(needBytes, freeBytes, need.kvBytesPerSlot !== null),
    };
  });
};
