/**
 * One question to the admin API, bounded in time and size. Its answer is parsed by the schemas that the API itself answers with.
 *
 * Nothing is tried twice: the person or the script that asked sees the failure and knows whether to ask again.
 */
import { type ErrorCode, errorCodes } from "@lockgate/shared-types";
import * as z from "zod";
import type { Access } from "./access.ts";
import { CommandFailed, type ExitCode, exitCodes } from "./exit-codes.ts";

/** An edge answers in well under a second; one whose database hangs does not answer at all. */
export const ANSWER_TIMEOUT_MS = 30_000;
/** Pages have 500 rows at most. */
export const MAX_ANSWER_BYTES = 8 * 1024 * 1024;
/** Pages that one command asks for. */
export const MAX_PAGES = 100;

const errorSchema = z.object({ error: z.object({ message: z.string(), code: z.string() }) });

/** Asks; `Ask` is given its schema, the method, and the path below /admin/v1. */
export type Ask = <T>(schema: z.ZodType<T>, method: string, path: string, body?: unknown) => Promise<T>;

const readText = async (response: Response): Promise<string> => {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of response.body ?? []) {
    bytes += part.length;
    if (bytes > MAX_ANSWER_BYTES) throw new CommandFailed(exitCodes.protocol, "the answer is too long to be an edge's");
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
};

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

const exitCodeOf = (status: number): ExitCode => {
  if (status === 401) return exitCodes.noPermission;
  if (status >= 500 || status === 408) return exitCodes.unavailable;
  return exitCodes.dataError;
};

const reasonOf = (error: unknown): string => {
  if (!(error instanceof Error)) return "unknown";
  if (error.name === "TimeoutError") return `no answer in ${ANSWER_TIMEOUT_MS / 1000} s`;
  const { cause } = error;
  return cause instanceof Error && "code" in cause ? String(cause.code) : error.message;
};

/** Makes the one way to ask. Failures are CommandFailed. */
export const askWith =
  ({ url, token }: Access): Ask =>
  async (schema, method, path, body) => {
    let response: Response;
    let text: string;
    try {
      response = await fetch(`${url}/admin/v1${path}`, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        // A redirect would carry the credential to wherever somebody says.
        redirect: "error",
        signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
      });
      text = await readText(response);
    } catch (error) {
      if (error instanceof CommandFailed) throw error;
      throw new CommandFailed(exitCodes.unavailable, `${url} does not answer (${reasonOf(error)})`);
    }
    const json = parseJson(text);
    if (response.ok) {
      const parsed = schema.safeParse(json);
      if (parsed.success) return parsed.data;
      throw new CommandFailed(exitCodes.protocol, `${url} answers, but not as an admin API of this version does`);
    }
    const refused = errorSchema.safeParse(json);
    if (!refused.success || !Object.hasOwn(errorCodes, refused.data.error.code as ErrorCode)) {
      throw new CommandFailed(
        exitCodes.protocol,
        `${url} answers with status ${response.status}, but not as an edge does`,
      );
    }
    const { message, code } = refused.data.error;
    if (response.status === 404 && message === "There is no such endpoint.") {
      throw new CommandFailed(
        exitCodes.protocol,
        `${url} has no admin API: its ADMIN_TOKEN_HASH is not set, or it is older`,
      );
    }
    const request = response.headers.get("x-request-id");
    const named = response.status >= 500 && request !== null ? ` (request ${request})` : "";
    throw new CommandFailed(exitCodeOf(response.status), `${code}: ${message}${named}`);
  };

/** Asks for pages until `rows` rows are there or none is left. `query` begins with `?`, or is empty. */
export const askPages = async <T>(ask: Ask, row: z.ZodType<T>, path: string, query: URLSearchParams, rows: number) => {
  const page = z.object({ data: z.array(row), next_cursor: z.string().nullable() });
  const data: T[] = [];
  let cursor: string | null = null;
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const params = new URLSearchParams(query);
    if (cursor !== null) params.set("cursor", cursor);
    const words = params.toString();
    const answer: z.infer<typeof page> = await ask(page, "GET", `${path}${words === "" ? "" : `?${words}`}`);
    data.push(...answer.data);
    cursor = answer.next_cursor;
    if (cursor === null || data.length >= rows) break;
  }
  return { data: data.slice(0, rows), more: cursor !== null || data.length > rows };
};
