import test from "ava";
import { InvalidArgumentError } from "commander";
import {
  apiValue,
  cleared,
  duration,
  instantOrNone,
  limitOrNone,
  nameList,
  namesOrAll,
  weightOrNone,
} from "../../edge/cli/values.ts";

const nowMs = Date.UTC(2027, 0, 15);
const DAY_MS = 86_400_000;

const refuses = (parse: (text: string) => unknown, ...texts: string[]) =>
  texts.filter((text) => {
    try {
      parse(text);
      return true;
    } catch (error) {
      return !(error instanceof InvalidArgumentError);
    }
  });

test("a limit is a whole number from 1, or none, which the API has as null", (t) => {
  t.is(limitOrNone("1"), 1);
  t.is(limitOrNone("1000000000000"), 1e12);
  t.is(limitOrNone("none"), cleared);
  t.is(apiValue(limitOrNone("none")), null);
  t.is(apiValue(5), 5);
  t.deepEqual(refuses(limitOrNone, "0", "-1", "1.5", "1e3", "", "1000000000001", "null"), []);
});

test("a weight is above 0 and at most 1000, or none", (t) => {
  t.deepEqual([weightOrNone("0.5"), weightOrNone("1000"), weightOrNone("none")], [0.5, 1000, cleared]);
  t.deepEqual(refuses(weightOrNone, "0", "1000.1", "-1", "x", ""), []);
});

test("a time is a count with its unit; only 0 needs none", (t) => {
  t.deepEqual(["90s", "15m", "24h", "7d", "0", "0s"].map(duration), [90, 900, 86_400, 604_800, 0, 0]);
  t.deepEqual(refuses(duration, "1", "1w", "-1d", "1.5h", "", "d", "1234567s"), []);
});

test("an expiry is a time from now, a day or an instant in UTC, or none", (t) => {
  const parse = instantOrNone(nowMs);
  t.is(parse("30d"), nowMs + 30 * DAY_MS);
  t.is(parse("2027-12-31"), Date.UTC(2027, 11, 31));
  t.is(parse("2027-12-31T18:00:00Z"), Date.UTC(2027, 11, 31, 18));
  t.is(parse("2027-12-31T18:00:00+02:00"), Date.UTC(2027, 11, 31, 16));
  t.is(parse("none"), cleared);
  t.deepEqual(refuses(parse, "soon", "31.12.2027", "2027-13-01", "2027-12-31T18:00:00", "1830000000000", ""), []);
});

test("names stand between commas; all means every one", (t) => {
  t.deepEqual(nameList("a, b"), ["a", "b"]);
  t.is(namesOrAll("all"), cleared);
  t.deepEqual(namesOrAll("a"), ["a"]);
  t.deepEqual(refuses(nameList, "", "a,,b", "a,"), []);
});
