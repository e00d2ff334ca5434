/** The exit codes in words, for --help and the README. Pure. */
import { exitCodes } from "../config/exit-codes.ts";
import { formatTable } from "./format.ts";

export const exitCodeMeanings: Readonly<Record<keyof typeof exitCodes, string>> = {
  ok: "all went well",
  usage: "the command line is wrong",
  dataError: "a file is not what it should be: not a model, not keys",
  noInput: "a file is missing or not readable",
  unavailable: "something that is needed is not there: a device, the addon, the port, the agent",
  software: "a fault of the agent",
  osError: "the system refused: memory, processes, a file that cannot be written",
  tempFail: "may work when tried again",
  config: "the configuration is wrong, or no key is set",
};

/** Code and meaning, in the order of the codes. */
export const exitCodeRows = (): [code: string, meaning: string][] =>
  Object.entries(exitCodeMeanings).map(([name, meaning]) => [
    String(exitCodes[name as keyof typeof exitCodes]),
    meaning,
  ]);

export const exitCodeHelp = (): string =>
  `\nExit codes (sysexits.h):\n${formatTable(exitCodeRows().map((row) => ["", ...row])).join("\n")}`;
