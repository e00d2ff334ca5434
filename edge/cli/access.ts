/**
 * Where the edge is and with which credential it is asked. The credential comes from the environment or from a file that its owner alone may
 * read; never from a flag, which every process list would show.
 */
import { readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { readBearer } from "@lockgate/shared-types";
import * as z from "zod";
import { CommandFailed, exitCodes } from "./exit-codes.ts";

export const URL_VARIABLE = "LOCKGATE_ADMIN_URL";
export const TOKEN_VARIABLE = "LOCKGATE_ADMIN_TOKEN";
export const CREDENTIAL_VARIABLE = "LOCKGATE_ADMIN_CREDENTIAL";

export interface Access {
  /** Base URL of the edge, no trailing slash. */
  readonly url: string;
  readonly token: string;
}

export interface AccessOptions {
  readonly url?: string | undefined;
  readonly credential?: string | undefined;
}

const fileSchema = z.object({ url: z.string().optional(), token: z.string() });

const readCredentialFile = (path: string): z.infer<typeof fileSchema> => {
  let text: string;
  try {
    if (process.platform !== "win32" && (statSync(path).mode & 0o077) !== 0) {
      throw new CommandFailed(exitCodes.config, `${path} may be read by others than its owner; run: chmod 600 ${path}`);
    }
    text = readFileSync(path, "utf8");
  } catch (error) {
    if (error instanceof CommandFailed) throw error;
    throw new CommandFailed(exitCodes.noInput, `${path} cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  try {
    return fileSchema.parse(JSON.parse(text));
  } catch {
    // Nothing of the text: it may hold a token.
    throw new CommandFailed(
      exitCodes.config,
      `${path} is not a credential file: {"url": "<edge>", "token": "<token>"}`,
    );
  }
};

const isLoopback = (host: string): boolean => /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(host);

const edgeUrl = (text: string): string => {
  const url = URL.parse(text);
  if (
    url === null ||
    !/^https?:$/.test(url.protocol) ||
    `${url.username}${url.password}${url.search}${url.hash}` !== ""
  ) {
    throw new CommandFailed(exitCodes.config, "the edge's URL must be http or https, without user, query or fragment");
  }
  if (url.protocol === "http:" && !isLoopback(url.hostname)) {
    throw new CommandFailed(
      exitCodes.config,
      "the credential does not travel over http but to this machine itself; use https",
    );
  }
  return url.href.replace(/\/+$/, "");
};

/** A flag beats its variable, a file's URL comes last. Throws CommandFailed. */
export const findAccess = (options: AccessOptions, env: Readonly<Record<string, string | undefined>>): Access => {
  const path = options.credential ?? (env[TOKEN_VARIABLE] === undefined ? env[CREDENTIAL_VARIABLE] : undefined);
  // npm runs scripts in the package's folder; paths are meant from where the person stands.
  const file = path === undefined ? undefined : readCredentialFile(resolve(env.INIT_CWD ?? process.cwd(), path));
  const token = file?.token ?? env[TOKEN_VARIABLE];
  const url = options.url ?? env[URL_VARIABLE] ?? file?.url;
  if (token === undefined || token === "") {
    throw new CommandFailed(exitCodes.config, `no credential: set ${TOKEN_VARIABLE}, or name a file with --credential`);
  }
  if (!readBearer(`Bearer ${token}`).ok) {
    throw new CommandFailed(exitCodes.config, "the credential is not one: it has characters that no token has");
  }
  if (url === undefined) {
    throw new CommandFailed(exitCodes.config, `no edge: set ${URL_VARIABLE}, or name it with --url`);
  }
  return { url: edgeUrl(url), token };
};
