/** All contracts, by number. */
import type { Contract } from "./contract.ts";
import { handOverContracts } from "./hand-over.ts";
import { hazardContracts } from "./hazards.ts";
import { replicaContracts } from "./replicas.ts";
import { statisticsContracts } from "./statistics.ts";

export const contracts: readonly Contract[] = [
  ...handOverContracts,
  ...statisticsContracts,
  ...replicaContracts,
  ...hazardContracts,
].toSorted((a, b) => a.number - b.number);
