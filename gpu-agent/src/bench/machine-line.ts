/** What of a machine belongs beside figures, so that they can be read later and elsewhere. Pure. */

export interface Machine {
  readonly cpu: string;
  readonly memoryGib: number;
  readonly system: string;
  readonly node: string;
  /** Processes that wanted to run, mean of the last minute. Above 0 before a run begins: something else is at work here. */
  readonly loadAverage: number;
}

/** The machine in one line. */
export const machineLine = ({ cpu, memoryGib, system, node, loadAverage }: Machine): string =>
  `${cpu}, ${memoryGib} GiB, ${system}, Node ${node}, load average ${loadAverage.toFixed(2)} before the run`;
