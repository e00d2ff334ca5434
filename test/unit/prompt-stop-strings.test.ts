import assert from "node:assert/strict";
import test from "ava";
import fc from "fast-check";
import { createStopMatcher } from "../../gpu-agent/src/prompt/stop-strings.ts";

/** What the whole text comes to: everything before the earliest start of any stop string. */
const oracle = (text: string, stops: readonly string[]): { text: string; stopped: boolean } => {
  const starts = stops.map((stop) => text.indexOf(stop)).filter((start) => start !== -1);
  return starts.length === 0 ? { text, stopped: false } : { text: text.slice(0, Math.min(...starts)), stopped: true };
};

/** What may be shown of a text whose end is not known: up to the first place where a stop string is complete or may still become so. */
const certain = (text: string, stops: readonly string[]): string => {
  for (let start = 0; start < text.length; start += 1) {
    const rest = text.slice(start);
    if (stops.some((stop) => rest.startsWith(stop) || stop.startsWith(rest))) return text.slice(0, start);
  }
  return text;
};

const few = fc.constantFrom("a", "b", "c", "🇵", "é", "🇹");
const stopLists = fc.array(fc.string({ unit: few, minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 4 });
const chunkLists = fc.array(fc.string({ unit: few, maxLength: 6 }), { maxLength: 20 });

test("property: any chunking gives what a search of the whole text gives", (t) => {
  t.notThrows(() =>
    fc.assert(
      fc.property(stopLists, chunkLists, fc.string({ unit: few, maxLength: 6 }), (stops, chunks, last) => {
        const matcher = createStopMatcher(stops);
        let text = "";
        let stopped = false;
        for (const chunk of chunks) {
          const result = matcher.push(chunk);
          text += result.emit;
          assert.ok(result.emit.isWellFormed());
          stopped = result.stopped;
          if (stopped) break;
        }
        if (!stopped) {
          const end = matcher.end(last);
          text += end.emit;
          stopped = end.stopped;
        }
        assert.deepEqual({ text, stopped }, oracle([...chunks, last].join(""), stops));
      }),
      { numRuns: 5_000 },
    ),
  );
});

test("property: after every push exactly the certain text is out, no more and no less", (t) => {
  t.notThrows(() =>
    fc.assert(
      fc.property(stopLists, chunkLists, (stops, chunks) => {
        const matcher = createStopMatcher(stops);
        let seen = "";
        let out = "";
        for (const chunk of chunks) {
          const { emit, stopped } = matcher.push(chunk);
          seen += chunk;
          out += emit;
          assert.equal(out, certain(seen, stops));
          assert.ok(stopped || seen.length - out.length < Math.max(...stops.map((stop) => stop.length)));
          if (stopped) break;
        }
      }),
      { numRuns: 2_000 },
    ),
  );
});

test("a stop string over three tokens is not emitted, nor is what follows it", (t) => {
  const matcher = createStopMatcher(["END"]);
  t.deepEqual(matcher.push("one E"), { emit: "one ", stopped: false });
  t.deepEqual(matcher.push("N"), { emit: "", stopped: false });
  t.deepEqual(matcher.push("D two"), { emit: "", stopped: true });
});

test("held text is released as soon as it cannot become a stop string", (t) => {
  const matcher = createStopMatcher(["END"]);
  t.is(matcher.push("EN").emit, "");
  t.is(matcher.push("EN").emit, "EN");
  t.is(matcher.push("x").emit, "ENx");
});

test("the end of the text releases what was held", (t) => {
  const matcher = createStopMatcher(["END"]);
  matcher.push("EN");
  t.deepEqual(matcher.end(""), { emit: "EN", stopped: false });
  const withText = createStopMatcher(["END"]);
  withText.push("EN");
  t.deepEqual(withText.end("d"), { emit: "ENd", stopped: false });
});

test("a stop string that the last text completes is found", (t) => {
  const matcher = createStopMatcher(["END"]);
  matcher.push("one EN");
  t.deepEqual(matcher.end("D two"), { emit: "", stopped: true });
});

test("a longer stop string that began earlier wins over one complete inside it", (t) => {
  const stops = ["</answer>", "answer"];
  const completed = createStopMatcher(stops);
  t.deepEqual(completed.push("42</answer"), { emit: "42", stopped: false });
  t.deepEqual(completed.push(">"), { emit: "", stopped: true });
  const broken = createStopMatcher(stops);
  broken.push("42</answer");
  t.deepEqual(broken.push("!"), { emit: "</", stopped: true });
  const ended = createStopMatcher(stops);
  ended.push("42</answer");
  t.deepEqual(ended.end(""), { emit: "</", stopped: true });
});

test("without stop strings everything passes at once", (t) => {
  const matcher = createStopMatcher([]);
  t.deepEqual(matcher.push("anything"), { emit: "anything", stopped: false });
  t.deepEqual(matcher.end(""), { emit: "", stopped: false });
});
