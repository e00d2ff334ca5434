/** Exit codes of the admin command: those of BSD's sysexits.h, as elsewhere in the project. Pure. */
export const exitCodes = {
  ok: 0,
  usage: 64,
  dataError: 65,
  noInput: 66,
  unavailable: 69,
  software: 70,
  protocol: 76,
  noPermission: 77,
  config: 78,
} as const;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

const meanings: Readonly<Record<keyof typeof exitCodes, string>> = {
  ok: "all went well",
  usage: "the command line is wrong",
  dataError: "the edge refused what was asked for; or consistency found differences",
  noInput: "the credential file is missing or not readable",
  unavailable: "the edge does not answer, or part of it did not; trying again is harmless",
  software: "a fault of this command",
  protocol: "what answered is not an admin API of this version",
  noPermission: "the edge does not take the credential",
  config: "there is no credential, or it may not be used so",
};

export const exitCodeHelp: string = `
Exit codes (sysexits.h):
${Object.entries(meanings)
  .map(([name, meaning]) => `  ${String(exitCodes[name as keyof typeof exitCodes]).padEnd(4)}${meaning}`)
  .join("\n")}`;

/** Ends a command: a sentence for standard error, and the code to exit with. */
export class CommandFailed extends Error {
  readonly exitCode: ExitCode;
  constructor(exitCode: ExitCode, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}
