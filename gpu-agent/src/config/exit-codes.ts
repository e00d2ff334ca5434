/** Exit codes of the agent and its replica hosts: those of BSD's sysexits.h, so a supervisor can tell what trying again cannot mend. */
export const exitCodes = {
  ok: 0,
  /** The command line is wrong. */
  usage: 64,
  /** A file was read and is not what it should be (not a model). */
  dataError: 65,
  /** A file is missing or not readable. */
  noInput: 66,
  /** Something that is needed is not there: a device, the addon, every replica. */
  unavailable: 69,
  /** A fault of ours. */
  software: 70,
  /** The system refused: memory, processes, the port. */
  osError: 71,
  /** May work when tried again. */
  tempFail: 75,
  /** The configuration is wrong. */
  config: 78,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];
