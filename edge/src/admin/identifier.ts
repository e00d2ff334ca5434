/**
 * Identifiers as parts of documented schemas. Pure. Made anew here: a schema that was made before the OpenAPI library loaded cannot be described.
 *
 * They stand in paths, where `.` and `..` are steps and no names: what is called so could be made and never be reached.
 */
import { z } from "@hono/zod-openapi";
import { identifierPattern } from "@lockgate/shared-types";

export const identifier = () =>
  z
    .string()
    .regex(identifierPattern, "must be 1 to 64 letters, digits or any of . _ -")
    .refine((text) => text !== "." && text !== "..", "must not be . or ..");
