/** What the admin app's route files share: the app's type, and how a refusal is answered. */
import { type OpenAPIHono, z } from "@hono/zod-openapi";
import { errorCodes, openAiErrorBody } from "@lockgate/shared-types";
import type { Context, TypedResponse } from "hono";
import type { Refusal } from "./outcome.ts";
import type { AdminContext } from "./ports.ts";

export interface AdminBindings {
  Bindings: AdminContext;
}
export type AdminApp = OpenAPIHono<AdminBindings>;

export const errorSchema = z
  .object({
    error: z.object({ message: z.string(), type: z.string(), param: z.string().nullable(), code: z.string() }),
  })
  .openapi("Error");

const errorContent = { "application/json": { schema: errorSchema } };

/** The answers that every route may give beside its own. */
export const errorResponses = {
  400: { description: "The request is not as documented; `param` names the field.", content: errorContent },
  401: { description: "Not the admin credential.", content: errorContent },
  404: { description: "There is no such thing.", content: errorContent },
  409: { description: "It cannot be done as things are now.", content: errorContent },
  413: { description: "The body is too large.", content: errorContent },
  415: { description: "The body is not plain JSON.", content: errorContent },
  503: { description: "Part of the edge did not answer. Try again; repeating is harmless.", content: errorContent },
};

type RefusalStatus = (typeof errorCodes)[Refusal["code"]]["status"];
/** One member for each status, as the typed routes want it. */
type RefusalAnswer = { [S in RefusalStatus]: TypedResponse<z.infer<typeof errorSchema>, S, "json"> }[RefusalStatus];

/** Answers with a refusal. The request's id is added to every answer in one place (admin.ts). */
export const answerRefusal = (context: Context<AdminBindings>, { code, message, param }: Refusal): RefusalAnswer =>
  context.json(openAiErrorBody(code, message, param), errorCodes[code].status) as RefusalAnswer;

/** JSON content of a request or an answer. */
export const jsonOf = <Schema extends z.ZodType>(schema: Schema) => ({ "application/json": { schema } });
