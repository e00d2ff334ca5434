import test from "ava";
import fc from "fast-check";
import {
  type Breaker,
  beginProbe,
  breakerState,
  CLOSED,
  endProbe,
  FORGET_MS,
  noteFailure,
  noteHeaders,
  noteSuccess,
  OPEN_AT,
  OPEN_MS,
  PROBE_MS,
} from "../../edge/src/fleet/breaker.ts";

const failures = (count: number, from: Breaker = CLOSED, nowMs = 0): Breaker =>
  Array.from({ length: count }).reduce<Breaker>((breaker) => noteFailure(breaker, nowMs), from);

test("it opens with the failure that makes OPEN_AT, and not before", (t) => {
  t.is(breakerState(failures(OPEN_AT - 1), 0), "closed");
  t.is(breakerState(failures(OPEN_AT), 0), "open");
  t.is(breakerState(failures(OPEN_AT), OPEN_MS - 1), "open");
  t.is(breakerState(failures(OPEN_AT), OPEN_MS), "half-open");
});

test("an agent that fails two of three requests opens it, one that fails one of three does not", (t) => {
  const after = (pattern: readonly boolean[], rounds: number): Breaker =>
    Array.from({ length: rounds }, () => pattern)
      .flat()
      .reduce<Breaker>((breaker, ok) => (ok ? noteSuccess(breaker) : noteFailure(breaker, 0)), CLOSED);
  t.is(breakerState(after([false, true, false], 10), 0), "open");
  t.is(breakerState(after([false, true, true], 1000), 0), "closed");
});

test("failures that lie FORGET_MS back are forgotten", (t) => {
  t.is(breakerState(noteFailure(failures(OPEN_AT - 1), FORGET_MS - 1), FORGET_MS - 1), "open");
  t.is(breakerState(noteFailure(failures(OPEN_AT - 1), FORGET_MS), FORGET_MS), "closed");
});

test("a half-open one lets one probe through, and another once the first is given up", (t) => {
  const probing = beginProbe(failures(OPEN_AT), OPEN_MS);
  t.is(breakerState(probing, OPEN_MS), "open");
  t.is(breakerState(probing, OPEN_MS + PROBE_MS - 1), "open");
  t.is(breakerState(probing, OPEN_MS + PROBE_MS), "half-open");
  t.is(breakerState(endProbe(probing), OPEN_MS), "half-open");
});

test("a probe that fails opens it again, one that is answered closes it on probation", (t) => {
  const probing = beginProbe(failures(OPEN_AT), OPEN_MS);
  t.is(breakerState(noteFailure(probing, OPEN_MS), OPEN_MS + 1), "open");
  t.is(breakerState(noteFailure(probing, OPEN_MS), 2 * OPEN_MS), "half-open");
  const answered = noteHeaders(probing, OPEN_MS);
  t.is(breakerState(answered, OPEN_MS), "closed");
  t.is(breakerState(noteFailure(answered, OPEN_MS), OPEN_MS), "open");
  t.is(breakerState(noteFailure(noteSuccess(answered), OPEN_MS), OPEN_MS), "closed");
});

test("what was sent before it opened, and ends while it is open, changes nothing", (t) => {
  const open = failures(OPEN_AT);
  t.is(noteFailure(open, 1), open);
  t.is(noteHeaders(open, 1), open);
  t.is(noteSuccess(open), open);
});

test("headers alone count for nothing: an agent that resets every stream opens it", (t) => {
  let breaker = CLOSED;
  for (let stream = 0; stream < OPEN_AT; stream += 1) breaker = noteFailure(noteHeaders(breaker, 0), 0);
  t.is(breakerState(breaker, 0), "open");
});

test("whatever happens, its weight stays within its bounds, and it never stays open for ever", (t) => {
  const step = fc.record({
    kind: fc.constantFrom("failure", "success", "headers", "begin", "end"),
    afterMs: fc.nat(20_000),
  });
  const seed = Number(process.env.LOCKGATE_SEED ?? Date.now());
  t.log(`LOCKGATE_SEED=${seed}`);
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      let nowMs = 0;
      let breaker = CLOSED;
      for (const { kind, afterMs } of steps) {
        nowMs += afterMs;
        if (kind === "failure") breaker = noteFailure(breaker, nowMs);
        if (kind === "success") breaker = noteSuccess(breaker);
        if (kind === "headers") breaker = noteHeaders(breaker, nowMs);
        if (kind === "begin") breaker = beginProbe(breaker, nowMs);
        if (kind === "end") breaker = endProbe(breaker);
        if (breaker.weight < 0 || breaker.weight > OPEN_AT) return false;
        if (breakerState(breaker, nowMs + OPEN_MS + PROBE_MS) === "open") return false;
      }
      return true;
    }),
    { seed },
  );
  t.pass();
});
