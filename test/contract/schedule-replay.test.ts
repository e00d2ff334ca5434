/** A printed path is enough to run its schedule again: with LOCKGATE_SCHEDULE_PATH set, this prints the trace of that one. */
import test from "ava";
import { replay } from "../helpers/schedule/run-schedule.ts";
import { formatPath, parsePath } from "../helpers/schedule/scope.ts";

const path = process.env.LOCKGATE_SCHEDULE_PATH ?? "A.tagged.1x2.small.endings+exit+cut=7/000101";

test("a schedule runs the same way each time from its path", async (t) => {
  const first = await replay(path);
  t.log(`${path}: ${first.rule ?? "no rule is broken"}\n${first.trace}`);
  t.deepEqual(await replay(path), first);
});

test("a path is read as it was written", (t) => {
  const { scope, choices } = parsePath(path);
  t.deepEqual(parsePath(formatPath(scope, choices)), { scope, choices });
});

test("a path that does not parse says which part", (t) => {
  t.throws(() => parsePath("A.tagged.1x2.small.plain"), { message: /<scope>\/<choices>/ });
  t.throws(() => parsePath("Z.tagged.1x2.small.plain/0"), { message: /the subject is one of/ });
  t.throws(() => parsePath("A.tagged.12.small.plain/0"), { message: /<replicas>x<callers>/ });
  t.throws(() => parsePath("A.tagged.1x2.small.rain/0"), { message: /a fault is one of/ });
  t.throws(() => parsePath("A.tagged.1x2.small.plain/-"), { message: /is no choice/ });
});
