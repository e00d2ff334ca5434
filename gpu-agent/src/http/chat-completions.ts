/**
 * `POST /v1/chat/completions`: reads and checks the request, takes a place in a replica's queue, and sends what the turn says, as a
 * stream or as one body. Until the place is taken every failure is a status; afterwards it is an in-stream error or a reset.
 */
import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { type ErrorCode, MAX_BODY_BYTES, REPLICA_HEADER } from "@lockgate/shared-types";
import type { Context } from "hono";
import type { RequestMeter } from "../metrics/request-meter.ts";
import { QueueFull, ReplicaError } from "../replicas/errors.ts";
import { DeadlineExceeded, type Ticket } from "../turn/admission-queue.ts";
import {
  NOWHERE,
  runQueuedTurn,
  type TurnContext,
  type TurnOutcome,
  type TurnRequest,
  type TurnSink,
} from "../turn/run-turn.ts";
import type { RequestAccount } from "../usage/usage-meter.ts";
import { type AgentEnv, type AgentServices, type RequestIdentity, refuse } from "./app.ts";
import { type ChatRequest, parseChatRequest } from "./chat-request.ts";
import { completionBody, createChunkWriter, type ResponseIdentity, type TurnUsage } from "./chat-response.ts";
import { ClientStream } from "./client-stream.ts";
import { dispatchFault } from "./dispatched-model.ts";
import { renderError } from "./errors.ts";
import { readBody } from "./read-body.ts";
import { KEEP_ALIVE_COMMENT, KEEP_ALIVE_INTERVAL_MS, positionComment, sseHeaders } from "./sse.ts";
import { TurnText } from "./turn-text.ts";

/** A plain request commits to 200 after so long without an answer, and sends a space as often. */
export const PLAIN_KEEP_ALIVE_MS = KEEP_ALIVE_INTERVAL_MS;

interface Prepared {
  readonly chat: ChatRequest;
  readonly turn: TurnRequest;
}

export const chatCompletions = async (c: Context<AgentEnv>, services: AgentServices): Promise<Response> => {
  const startedMs = performance.now();
  const identity = c.get("identity");
  const log = c.get("log");
  const { incoming, outgoing } = c.env;
  const prepared = await prepare(c, services, identity);
  if (prepared instanceof Response) return prepared;
  if (incoming.destroyed && outgoing.destroyed) return RESPONSE_ALREADY_SENT;

  using account = services.usage.open({
    requestId: identity.requestId,
    keyId: identity.keyId,
    model: services.model.name,
    promptTokens: prepared.turn.engine.prompt.length,
  });
  if (account === undefined) {
    log("warn", "turn_refused", { code: "USAGE_SPOOL_FULL" });
    return refuse({ code: "overloaded", message: "This agent cannot record further usage. Try again later." });
  }

  // The one signal from the client's socket to the native decode.
  const abort = new AbortController();
  outgoing.on("close", () => {
    if (!outgoing.writableFinished) abort.abort(); // an abort of what is over would still make its exception
  });

  const meter = services.metrics.request(startedMs);
  let ticket: Ticket;
  try {
    ticket = services.queue.enter(prepared.turn.engine, { signal: abort.signal, dueMs: dueMs(identity) });
  } catch (error) {
    if (!(error instanceof ReplicaError)) throw error;
    log("warn", "turn_refused", { code: error.code, detail: error.message });
    const refusal = refusalOf(error);
    meter.ended({ ...NOWHERE, kind: "failed", ...refusal, detail: error.message });
    return refuse({ ...refusal, ...retryAfter(services.queue.retryAfterMs()) });
  }

  const answer: ResponseIdentity = {
    id: `chatcmpl-${randomUUID()}`,
    model: services.model.name,
    created: Math.floor(Date.now() / 1000),
    systemFingerprint: services.model.fingerprint,
  };
  const send = prepared.chat.stream ? sendStream : sendBody;
  const text = services.logPrompts ? new TurnText() : undefined;
  const sending = { services, prepared, ticket, abort, outgoing, answer, identity, startedMs, meter, account, text };
  const outcome = await send(sending);
  meter.ended(outcome);
  if (outcome.statistics !== null) services.pace.note(outcome.statistics);
  log("info", "turn_ended", {
    turn: outcome.turn,
    replica: outcome.replica,
    outcome: outcome.kind === "failed" ? outcome.code : outcome.kind,
    ...(outcome.kind === "failed" ? { detail: outcome.detail } : {}),
    prompt_tokens: prepared.turn.engine.prompt.length,
    completion_tokens: outcome.completionTokens,
    generated: outcome.statistics?.generated ?? null,
    ms: Math.round(performance.now() - startedMs),
  });
  if (text !== undefined) log("info", "turn_text", text.fields(prepared.chat.messages));
  return RESPONSE_ALREADY_SENT;
};

/** A request's deadline on the clock of the queue. */
const dueMs = ({ deadlineMs }: RequestIdentity): number | undefined =>
  deadlineMs === undefined ? undefined : performance.now() + (deadlineMs - Date.now());

const refusalOf = (error: ReplicaError): { readonly code: ErrorCode; readonly message: string } => {
  if (error instanceof QueueFull) {
    return { code: "rate_limit_exceeded", message: "The queue of this model is full. Try again later." };
  }
  if (error instanceof DeadlineExceeded) {
    return { code: "deadline_exceeded", message: "The request could not start before its deadline." };
  }
  return noReplica;
};

const noReplica = { code: "overloaded", message: "No replica of this model is ready. Try again later." } as const;

const tooLong = (tokens: string, contextTokens: number) =>
  ({
    code: "context_length_exceeded",
    message: `The messages have ${tokens} tokens; this model's context holds ${contextTokens}, one of them for the answer.`,
    param: "messages",
  }) as const;

const retryAfter = (retryAfterMs: number | undefined) => (retryAfterMs === undefined ? {} : { retryAfterMs });

const prepare = async (
  c: Context<AgentEnv>,
  services: AgentServices,
  identity: RequestIdentity,
): Promise<Prepared | Response> => {
  const { model } = services;
  const body = await readBody(c.env.incoming);
  if (!body.ok) {
    if (body.why === "cut_short") return RESPONSE_ALREADY_SENT;
    return refuse({ code: "request_too_large", message: `The body is larger than ${MAX_BODY_BYTES} bytes.` });
  }
  if (identity.contentDigest !== undefined && !services.verifier.verifyBody(identity.contentDigest, body.bytes)) {
    c.get("log")("warn", "request_refused", { reason: "bad_digest" });
    return refuse({
      code: "invalid_signature",
      message: "This agent takes requests with a valid signature or its local key.",
    });
  }
  if (services.draining())
    return refuse({ code: "overloaded", message: "This agent is shutting down. Try again elsewhere." });
  const parsed = parseChatRequest(body.bytes);
  if (!parsed.ok) return refuse(parsed.problem);
  const chat = parsed.request;
  if (identity.model !== undefined) {
    const fault = dispatchFault(chat.model, identity.model, (name) => model.answersTo(name));
    if (fault !== undefined) return refuse(fault);
  }
  if (!model.answersTo(chat.model)) {
    const message = `The model '${chat.model}' does not exist here. Known: ${model.name}.`;
    return refuse({ code: "model_not_found", message, param: "model" });
  }
  const strangeId = chat.sampling.logitBias?.find(([id]) => id >= model.vocabSize)?.[0];
  if (strangeId !== undefined) {
    const message = `logit_bias names the token ${strangeId}; this model has the tokens 0 to ${model.vocabSize - 1}.`;
    return refuse({ code: "invalid_value", message, param: "logit_bias" });
  }
  const { contextTokens } = services.pool;
  if (contextTokens === undefined) return refuse(noReplica);
  const leastTokens = model.leastTokens(chat.messages);
  if (leastTokens >= contextTokens) return refuse(tooLong(`at least ${leastTokens}`, contextTokens));
  const tokenized = await model.tokenize(chat.messages);
  if (!tokenized.ok) return refuse({ code: "invalid_value", message: tokenized.message, param: "messages" });
  const room = contextTokens - tokenized.prompt.length;
  if (room < 1) return refuse(tooLong(String(tokenized.prompt.length), contextTokens));
  const maxTokens = Math.min(chat.maxTokens ?? room, room);
  return {
    chat,
    turn: {
      engine: { prompt: tokenized.prompt, maxTokens, sampling: chat.sampling, salt: identity.salt },
      stops: chat.stops,
    },
  };
};

interface Sending {
  readonly services: AgentServices;
  readonly prepared: Prepared;
  readonly ticket: Ticket;
  readonly abort: AbortController;
  readonly outgoing: ServerResponse;
  readonly answer: ResponseIdentity;
  readonly identity: RequestIdentity;
  readonly startedMs: number;
  readonly meter: RequestMeter;
  readonly account: RequestAccount;
  /** Undefined unless the text of turns is logged. */
  readonly text: TurnText | undefined;
}

/** Runs the turn into a sink that the meter, and where asked for the text log, look over the shoulder of. */
const run = (sending: Sending, sink: TurnSink): Promise<TurnOutcome> => {
  const { services, prepared, ticket, abort, meter, account, text } = sending;
  const { queue, open, model } = services;
  const context: TurnContext = {
    placeAgain: (request, signal) => queue.enter(request, { signal, again: true }).admission,
    open: meter.open(open),
    model,
    settle: account.settle,
  };
  const watched = meter.sink(text?.sink(sink) ?? sink);
  return runQueuedTurn(context, ticket.admission, prepared.turn, abort.signal, watched);
};

/**
 * Which replica a turn has when headers go out. A stream that waits has none yet, and one that loses its replica before its first token
 * moves on afterwards; a plain answer that came within PLAIN_KEEP_ALIVE_MS tells where it was made.
 */
const replicaHeader = (replica: number | undefined) =>
  replica === undefined ? {} : { [REPLICA_HEADER]: String(replica) };

const usageOf = (prepared: Prepared, outcome: TurnOutcome): TurnUsage => ({
  promptTokens: prepared.turn.engine.prompt.length,
  completionTokens: outcome.completionTokens,
  cachedTokens: outcome.statistics?.reused ?? null,
});

const sendStream = async (sending: Sending): Promise<TurnOutcome> => {
  const { services, prepared, ticket, outgoing, answer, identity, startedMs } = sending;
  outgoing.writeHead(200, {
    ...sseHeaders,
    ...replicaHeader(ticket.replica()),
    "x-request-id": identity.requestId,
    "openai-processing-ms": String(Math.round(performance.now() - startedMs)),
  });
  outgoing.flushHeaders();
  outgoing.socket?.setNoDelay(true);
  const stream = new ClientStream({
    response: outgoing,
    keepAlive: () => (identity.wantsPosition ? positionComment(ticket.ahead()) : KEEP_ALIVE_COMMENT),
    keepAliveMs: KEEP_ALIVE_INTERVAL_MS,
    writeStallMs: services.writeStallMs,
  });
  const chunks = createChunkWriter({ ...answer, includeUsage: prepared.chat.includeUsage });
  let begun = false;
  const begin = () => {
    if (!begun) stream.text(chunks.role());
    begun = true;
  };
  const sink: TurnSink = {
    text: (piece) => {
      begin();
      stream.text(chunks.content(piece));
    },
    flush: () => stream.flush(),
  };
  const outcome = await run(sending, sink);
  if (outcome.kind === "finished") {
    begin();
    stream.text(chunks.finish(outcome.reason, outcome.statistics));
    if (prepared.chat.includeUsage) stream.text(chunks.usage(usageOf(prepared, outcome)));
    stream.text(chunks.done());
    stream.end();
  } else if (outcome.kind === "failed") {
    stream.text(chunks.error(outcome.code, outcome.message));
    stream.end();
  } else stream.reset();
  return outcome;
};

const sendBody = async (sending: Sending): Promise<TurnOutcome> => {
  const { services, prepared, ticket, outgoing, answer, identity, startedMs } = sending;
  const headers = (replica: number | undefined) => ({
    "content-type": "application/json",
    ...replicaHeader(replica),
    "x-request-id": identity.requestId,
    "openai-processing-ms": String(Math.round(performance.now() - startedMs)),
  });
  let text = "";
  let stream: ClientStream | undefined;
  const commit = setTimeout(() => {
    outgoing.writeHead(200, headers(ticket.replica()));
    stream = new ClientStream({
      response: outgoing,
      keepAlive: () => " ",
      keepAliveMs: PLAIN_KEEP_ALIVE_MS,
      writeStallMs: services.writeStallMs,
    });
    stream.text(" ");
    stream.flush()?.catch(() => {}); // a client that is gone is told by the response's close
  }, PLAIN_KEEP_ALIVE_MS);
  const sink: TurnSink = {
    text: (piece) => {
      text += piece;
    },
    flush: () => undefined,
  };
  const outcome = await run(sending, sink);
  clearTimeout(commit);
  const body =
    outcome.kind === "finished"
      ? completionBody({
          ...answer,
          text,
          finishReason: outcome.reason,
          usage: usageOf(prepared, outcome),
          statistics: outcome.statistics,
        })
      : undefined;
  if (body !== undefined && stream !== undefined) {
    stream.text(body);
    stream.end();
  } else if (body !== undefined) {
    outgoing.writeHead(200, { ...headers(outcome.replica), "content-length": Buffer.byteLength(body) });
    outgoing.end(body);
  } else if (outcome.kind === "failed" && stream === undefined) {
    const { code, message } = outcome;
    const rendered = renderError({ code, message, param: null });
    outgoing.writeHead(rendered.status, { ...rendered.headers, "x-request-id": identity.requestId });
    outgoing.end(rendered.body);
  } else if (stream !== undefined) stream.reset();
  else outgoing.destroy();
  return outcome;
};
