/**
 * The request metrics of a model server by OpenTelemetry's conventions (semantic conventions for generative AI metrics, "model server"), as
 * a collector translates their names for Prometheus: dots become underscores, the unit is appended. Buckets are the conventions' own.
 *
 * They stand beside the vLLM families, which know replicas; here the label is the model, so that one dashboard serves unlike servers.
 */
import { Histogram, type Registry } from "prom-client";
import type { TurnOutcome } from "../turn/run-turn.ts";

/** How a request went; times in seconds since its arrival. */
export interface RequestCourse {
  /** When its first text was there, and how many tokens had been read for that; undefined where there was none. */
  readonly firstText: { readonly at: number; readonly tokens: number } | undefined;
  readonly end: number;
}

export interface GenAiMetrics {
  /** A request ended so; once. */
  ended(outcome: TurnOutcome, course: RequestCourse): void;
}

/** No well-known value of gen_ai.provider.name is us, and the conventions leave it to us then. */
const PROVIDER = "lockgate";
/** error.type of a request whose client went away; every other error goes by the code that its client reads. */
const CLIENT_GONE = "client_gone";

const durationBuckets = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const firstTokenBuckets = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const perTokenBuckets = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5];

const commonLabels = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"] as const;

const errorOf = (outcome: TurnOutcome): string | undefined => {
  if (outcome.kind === "finished") return undefined;
  return outcome.kind === "aborted" ? CLIENT_GONE : outcome.code;
};

/** Makes them in `registry`; `model` is the one that is served. Those of finished requests say 0 from the first scrape on. */
export const createGenAiMetrics = (registry: Registry, model: string): GenAiMetrics => {
  const registers = [registry];
  const common = { gen_ai_operation_name: "chat", gen_ai_provider_name: PROVIDER, gen_ai_request_model: model };
  const duration = new Histogram({
    name: "gen_ai_server_request_duration_seconds",
    help: "From the arrival of a request to its end, however it ended; error_type says how, where it did not finish.",
    buckets: durationBuckets,
    labelNames: [...commonLabels, "error_type"],
    registers,
  });
  const firstToken = new Histogram({
    name: "gen_ai_server_time_to_first_token_seconds",
    help: "From the arrival of a request that finished to its first text.",
    buckets: firstTokenBuckets,
    labelNames: commonLabels,
    registers,
  });
  const perToken = new Histogram({
    name: "gen_ai_server_time_per_output_token_seconds",
    help: "Mean time of each token behind those of the first text, of requests that finished with further ones.",
    buckets: perTokenBuckets,
    labelNames: commonLabels,
    registers,
  });
  for (const histogram of [duration, firstToken, perToken]) histogram.zero(common);
  return {
    ended: (outcome, { firstText, end }) => {
      const error = errorOf(outcome);
      duration.observe(error === undefined ? common : { ...common, error_type: error }, end);
      if (error !== undefined || firstText === undefined) return;
      firstToken.observe(common, firstText.at);
      const more = outcome.completionTokens - firstText.tokens;
      if (more > 0) perToken.observe(common, (end - firstText.at) / more);
    },
  };
};
