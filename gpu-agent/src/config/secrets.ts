/**
 * Reads the keys that callers prove themselves with: from the environment, or from a file that the configuration names.
 *
 * Never from a flag or from the configuration file itself. No message here repeats any part of a secret.
 */
import { parseSigningKeys, readSecret, type SigningKeys } from "@lockgate/shared-types";
import { exitCodes } from "./exit-codes.ts";
import { type ConfigFault, configFault } from "./outcome.ts";

export const SIGNING_KEYS_VARIABLE = "LOCKGATE_SIGNING_KEYS";
export const LOCAL_KEY_VARIABLE = "LOCKGATE_LOCAL_KEY";

/** Shorter ones can be guessed over the network. */
export const MIN_LOCAL_KEY_CHARS = 16;

/** Paths from the `[auth]` table of the configuration file. */
export interface AuthFiles {
  readonly signingKeysFile: string | undefined;
  readonly localKeyFile: string | undefined;
}

export interface Secrets {
  readonly ok: true;
  /** Empty where no edge may call. */
  readonly signingKeys: SigningKeys;
  readonly localKey: string | undefined;
}

/** A secret's text and where it came from, for messages. */
interface SecretText {
  readonly ok: true;
  readonly text: string;
  readonly source: string;
}

type Environment = Readonly<Record<string, string | undefined>>;
type ReadFile = (path: string) => string;

/** Reads a text file; its failure is a missing input. `what` says what the file is for. */
export const readInput = (readFile: ReadFile, path: string, what: string): { ok: true; text: string } | ConfigFault => {
  try {
    return { ok: true, text: readFile(path) };
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "error";
    return configFault(exitCodes.noInput, `${what} ${path} cannot be read (${code}); give a readable file`);
  }
};

const findSecret = (
  env: Environment,
  variable: string,
  path: string | undefined,
  key: string,
  readFile: ReadFile,
): SecretText | ConfigFault | null => {
  const fromEnv = env[variable];
  if (fromEnv !== undefined && fromEnv !== "") return { ok: true, text: fromEnv, source: variable };
  if (path === undefined) return null;
  const file = readInput(readFile, path, key);
  return file.ok ? { ok: true, text: file.text, source: path } : file;
};

/** The keys; the environment beats the files. At least one way in must be configured. */
export const readSecrets = (env: Environment, files: AuthFiles, readFile: ReadFile): Secrets | ConfigFault => {
  const signing = findSecret(env, SIGNING_KEYS_VARIABLE, files.signingKeysFile, "auth.signing_keys_file", readFile);
  if (signing?.ok === false) return signing;
  const local = findSecret(env, LOCAL_KEY_VARIABLE, files.localKeyFile, "auth.local_key_file", readFile);
  if (local?.ok === false) return local;
  if (signing === null && local === null) {
    return configFault(
      exitCodes.config,
      `no key is configured, so nobody could call this agent: set ${LOCAL_KEY_VARIABLE} (clients in this network) or ` +
        `${SIGNING_KEYS_VARIABLE} (an edge), or name a file under [auth] as signing_keys_file or local_key_file`,
    );
  }

  let signingKeys: SigningKeys = new Map();
  if (signing !== null) {
    const parsed = parseSigningKeys(signing.text);
    const hint = parsed.ok ? "no key in it" : parsed.hint;
    if (!parsed.ok || parsed.keys.size === 0) {
      return configFault(
        exitCodes.config,
        `${signing.source} holds no usable signing keys (${hint}); it must be JSON like {"<key id>": "<32 or more bytes, base64url>"}`,
      );
    }
    signingKeys = parsed.keys;
  }

  const localKey = local?.text.trim();
  if (local !== null && localKey !== undefined && (localKey.length < MIN_LOCAL_KEY_CHARS || !readSecret(localKey).ok)) {
    return configFault(
      exitCodes.config,
      `${local.source} holds no usable local key; it must be ${MIN_LOCAL_KEY_CHARS} to 256 letters, digits or any of . _ ~ + / -`,
    );
  }
  return { ok: true, signingKeys, localKey };
};
