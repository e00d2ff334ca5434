/**
 * The trace context (W3C) of a client's request, as the header fields that go on to an agent. Pure. The edge is no span of its own: it
 * passes on what is well-formed and drops the rest, for an agent logs what it gets.
 */
import { parseTraceparent, passableTracestate, traceHeaderNames } from "@lockgate/shared-types";

/** None without a valid traceparent: a tracestate alone belongs to no trace. */
export const traceFields = (headers: Headers): [name: string, value: string][] => {
  const traceparent = headers.get(traceHeaderNames.traceparent);
  if (traceparent === null || parseTraceparent(traceparent) === undefined) return [];
  const tracestate = passableTracestate(headers.get(traceHeaderNames.tracestate));
  return [
    [traceHeaderNames.traceparent, traceparent],
    ...(tracestate === undefined ? [] : [[traceHeaderNames.tracestate, tracestate] satisfies [string, string]]),
  ];
};
