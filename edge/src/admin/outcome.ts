/** How an admin action ends: with a value, or refused with a code and a sentence for the person who asked. Pure. */
import type { ErrorCode } from "@lockgate/shared-types";

export type RefusalCode = Extract<ErrorCode, "invalid_value" | "not_found" | "conflict" | "overloaded">;

export interface Refusal {
  readonly ok: false;
  readonly code: RefusalCode;
  readonly message: string;
  /** The field at fault. */
  readonly param: string | null;
}

export type Outcome<T> = { readonly ok: true; readonly value: T } | Refusal;

export const done = <T>(value: T): Outcome<T> => ({ ok: true, value });

export const refuse = (code: RefusalCode, message: string, param: string | null = null): Refusal => ({
  ok: false,
  code,
  message,
  param,
});
