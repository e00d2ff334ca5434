/** An expected failure of the build: a message for a person, and the exit code (sysexits.h). */

export const EXIT_USAGE = 64;
export const EXIT_UNAVAILABLE = 69;
export const EXIT_FAILED = 70;
export const EXIT_BUSY = 75;

export class BuildFailure extends Error {
  /**
   * @param {number} exitCode
   * @param {string} message
   */
  constructor(exitCode, message) {
    super(message);
    this.exitCode = exitCode;
  }
}
