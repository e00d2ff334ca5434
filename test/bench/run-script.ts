/** What the bench scripts have in common: options that are wrong or a bench that fails end in the documented exit code. */
/** Those of BSD's sysexits.h, and a shell's for Ctrl-C. */
export const exitCodes = { ok: 0, usage: 64, software: 70, interrupted: 130 } as const;

/** Runs `bench`; undefined options mean that the reader of the command line has said what is wrong. */
export const runScript = async <T>(
  options: T | undefined,
  bench: (options: T) => Promise<number>,
  progress: (text: string) => void,
): Promise<void> => {
  if (options === undefined) {
    process.exitCode = exitCodes.usage;
    return;
  }
  try {
    process.exitCode = await bench(options);
  } catch (error) {
    progress(error instanceof Error ? error.message : String(error));
    process.exitCode = exitCodes.software;
  }
};
