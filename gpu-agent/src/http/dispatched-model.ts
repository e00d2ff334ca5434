/**
 * Whether the model that a client's body names is the one that the edge checked its key for. Pure.
 *
 * The edge signs the name (x-lockgate-model). Reading the body alone would let a body that two parsers read differently be checked for one
 * model and run on another.
 */
import { DEFAULT_MODEL_NAME } from "@lockgate/shared-types";
import type { RequestProblem } from "./request-fields.ts";

const refusal = (message: string): RequestProblem => ({ code: "invalid_value", message, param: "model" });

/**
 * What is wrong with a body that asks for `asked` under a signature for `signed`; undefined where they agree. A name that is asked for and
 * signed, and not served here, is not this function's business: that model does not exist.
 */
export const dispatchFault = (
  asked: string,
  signed: string,
  isServed: (name: string) => boolean,
): RequestProblem | undefined => {
  if (asked === signed) return undefined;
  if (asked !== DEFAULT_MODEL_NAME)
    return refusal("The body names another model than the one that the request was let in for.");
  return isServed(signed) ? undefined : refusal("The request was let in for a model that this agent does not serve.");
};
