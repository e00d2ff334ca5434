/** Errors of this module: an Error whose `code` is one of index.d.ts's NativeErrorCode. */

/**
 * @param {string} code
 * @param {string} message
 */
export function nativeError(code, message) {
  return Object.assign(new Error(message), { code });
}

/**
 * @param {string} name the argument
 * @param {string} expected what it must be, e.g. "an integer from 1 to 64"
 */
export function invalidArgument(name, expected) {
  return nativeError("ERR_INVALID_ARGUMENT", `${name} must be ${expected}`);
}
