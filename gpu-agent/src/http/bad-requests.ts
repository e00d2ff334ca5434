/**
 * Requests that never become one: what Node's parser or the adapter gives up on gets an error body too, in the form of all others, and the
 * connection is closed.
 */
import { type Server, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import type { ErrorCode } from "@lockgate/shared-types";
import { renderError } from "./errors.ts";

/** Node's parser errors (nodejs.org/api/errors.html) that are not plainly a malformed message. */
const codeOfParserError = (code: string | undefined): ErrorCode => {
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return "deadline_exceeded";
  return code === "HPE_HEADER_OVERFLOW" ? "request_too_large" : "invalid_value";
};

const messages: Partial<Record<ErrorCode, string>> = {
  deadline_exceeded: "The request did not arrive in time.",
  request_too_large: "The request's head is too large.",
  invalid_value: "The request is not well-formed HTTP.",
};

/** Answers on the raw socket, if it can still be written to. */
export const answerBadRequests = (server: Server): void => {
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Duplex) => {
    if (!socket.writable || error.code === "ECONNRESET") {
      socket.destroy();
      return;
    }
    const code = codeOfParserError(error.code);
    const { status, headers, body } = renderError({ code, message: messages[code] ?? "", param: null });
    const head = Object.entries({ ...headers, "content-length": String(Buffer.byteLength(body)), connection: "close" });
    const lines = head.map(([name, value]) => `${name}: ${value}\r\n`).join("");
    socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines}\r\n${body}`);
  });
};

/** The adapter's own refusals (no Host, a target that is no URL), which have no body. */
export const malformedRequest = (): Response => {
  const { status, headers, body } = renderError({
    code: "invalid_value",
    message: "The request's target or Host is not well-formed.",
    param: null,
  });
  return new Response(body, { status, headers });
};
