/**
 * How a request field is treated: honoured, accepted because its value changes nothing, or refused by name; and how the first fault
 * that zod finds becomes an answer to the client. The API schemas (chat-request.ts) are tables of these.
 *
 * In all of them null means absent, as OpenAI's clients send it. Deliberately absent: any particular field.
 */
import type { ErrorCode } from "@lockgate/shared-types";
import { z } from "zod";

/** Why a request is refused with a 400. */
export interface RequestProblem {
  readonly code: Extract<ErrorCode, "invalid_json" | "invalid_value" | "unsupported_parameter">;
  /** What is wrong and what would be right. */
  readonly message: string;
  /** The field, e.g. `messages[0].content[1].type`; null for the body as a whole. */
  readonly param: string | null;
}

interface IssueSink {
  addIssue(issue: {
    code: "custom";
    message: string;
    input: unknown;
    path?: PropertyKey[];
    params: { unsupported: boolean };
  }): void;
}

/** Reports a value that is understood but that this server does not do. */
export const addUnsupported = (sink: IssueSink, input: unknown, message: string): void =>
  sink.addIssue({ code: "custom", message, input, params: { unsupported: true } });

/** Reports a wrong value; `path` leads from the checked object to the field. */
export const addInvalid = (sink: IssueSink, input: unknown, message: string, path: PropertyKey[] = []): void =>
  sink.addIssue({ code: "custom", message, input, path, params: { unsupported: false } });

/** A field that the server acts on; undefined where the client left it out. */
export const honoured = <T>(schema: z.ZodType<T>) =>
  schema.nullish().transform((value): T | undefined => value ?? undefined);

/** A field that is accepted with values that change nothing, and refused with any other. `accepted` says which, for the client. */
export const neutral = (schema: z.ZodType, accepted: string) =>
  z
    .unknown()
    .optional()
    .transform((value, sink): undefined => {
      if (value === undefined || value === null || schema.safeParse(value).success) return undefined;
      addUnsupported(sink, value, `only ${accepted} is supported; leave it out`);
      return undefined;
    });

/** A field that only null gets past. */
export const refused = (reason: string) =>
  z
    .unknown()
    .optional()
    .transform((value, sink): undefined => {
      if (value !== undefined && value !== null) addUnsupported(sink, value, `${reason}; leave it out`);
      return undefined;
    });

/** `["messages", 0, "role"]` as `messages[0].role`. */
const pathText = (path: readonly PropertyKey[]): string =>
  path.reduce<string>((text, step) => {
    if (typeof step === "number") return `${text}[${step}]`;
    return text === "" ? String(step) : `${text}.${String(step)}`;
  }, "");

/** Longest piece of a client's own field name that a message repeats, characters. */
const MAX_PARAM_CHARS = 200;

const problem = (code: RequestProblem["code"], path: readonly PropertyKey[], message: string): RequestProblem => {
  const param = pathText(path).slice(0, MAX_PARAM_CHARS);
  return { code, message: param === "" ? message : `${param}: ${message}`, param: param === "" ? null : param };
};

/** The answer to the first issue of a failed parse. */
export const firstProblem = (error: z.ZodError): RequestProblem => {
  const issue = error.issues[0];
  if (issue === undefined) return problem("invalid_value", [], "the request is not valid");
  if (issue.code === "unrecognized_keys") {
    return problem(
      "unsupported_parameter",
      [...issue.path, issue.keys[0] ?? ""],
      "this server knows no such parameter; leave it out",
    );
  }
  const unsupported = issue.code === "custom" && issue.params?.unsupported === true;
  return problem(unsupported ? "unsupported_parameter" : "invalid_value", issue.path, issue.message);
};

const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Reads a JSON body and parses it with a schema.
 *
 * The bytes must be valid UTF-8 (RFC 8259, 8.1). Of a key that comes twice JSON.parse takes the last, and so does the edge, so
 * what was checked is what is used. The size of the body is bounded where it is read off the socket.
 */
export const parseBody = <T>(
  bytes: Uint8Array,
  schema: z.ZodType<T>,
): { readonly ok: true; readonly value: T } | { readonly ok: false; readonly problem: RequestProblem } => {
  let json: unknown;
  try {
    json = JSON.parse(utf8.decode(bytes));
  } catch {
    return { ok: false, problem: problem("invalid_json", [], "the body is not valid JSON in UTF-8") };
  }
  if (typeof json !== "object" || json === null || Array.isArray(json)) {
    return { ok: false, problem: problem("invalid_json", [], "the body must be a JSON object") };
  }
  const parsed = schema.safeParse(json);
  return parsed.success ? { ok: true, value: parsed.data } : { ok: false, problem: firstProblem(parsed.error) };
};
