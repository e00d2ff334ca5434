/** What reading a configuration comes to: a value, or the exit code and the words for the person at the terminal. */
import type { ExitCode } from "./exit-codes.ts";

export interface ConfigFault {
  readonly ok: false;
  readonly exitCode: ExitCode;
  readonly message: string;
}

export const configFault = (exitCode: ExitCode, message: string): ConfigFault => ({ ok: false, exitCode, message });
