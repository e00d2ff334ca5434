/** What a command of the CLI gets from the entry: its streams, its environment, and a way to say how the process ends. */
import type { ExitCode } from "../config/exit-codes.ts";

export interface CliContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly writeOut: (text: string) => void;
  readonly writeError: (text: string) => void;
  /** Sets the exit code of the process, which ends once the command's action has. */
  readonly endWith: (exitCode: number) => void;
  /** Folder of the package, with a slash at its end. */
  readonly packageRoot: URL;
  readonly builtInModelPath: string;
}

/** The one way in which a command fails: its reason on stderr, and the exit code. */
export const failWith = (context: CliContext, exitCode: ExitCode | number, message: string): number => {
  context.writeError(`gpu-agent: ${message}\n`);
  return exitCode;
};

/** Why a fetch came to nothing: the system's code where there is one, else the words of whatever is at the bottom of it. */
export const failureText = (error: Error): string => {
  const { cause } = error;
  if (!(cause instanceof Error)) return error.message;
  return "code" in cause ? String(cause.code) : cause.message;
};
