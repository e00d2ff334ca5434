import test from "ava";
import { Budget, MAX_MONTHS } from "../../edge/src/admit/budget.ts";
import { monthOf } from "../../edge/src/calendar.ts";

const january = Date.UTC(2027, 0, 15);
const lastOfYear = Date.UTC(2026, 11, 31, 23, 59, 59, 999);

test("a month is that of UTC", (t) => {
  t.is(monthOf(lastOfYear), "2026-12");
  t.is(monthOf(lastOfYear + 1), "2027-01");
});

test("a sum is learned once, and one that comes late never lowers it", (t) => {
  const budget = new Budget();
  t.true(budget.learn({ "2027-01": 50 }, january));
  t.false(budget.learn({ "2027-01": 50 }, january));
  t.false(budget.learn({ "2027-01": 40 }, january));
  t.is(budget.used(january), 50);
  t.true(budget.learn({ "2027-01": 60 }, january));
  t.is(new Budget(budget.stored()).used(january), 60);
});

test("each month has its own sum, the turn of a year included", (t) => {
  const budget = new Budget();
  budget.learn({ "2026-12": 70, "2027-01": 5 }, lastOfYear);
  t.is(budget.used(lastOfYear), 70);
  t.is(budget.used(lastOfYear + 1), 5);
});

test("only the months beside the present one are kept; others, and what is no month, are passed over", (t) => {
  const budget = new Budget();
  t.true(budget.learn({ "2026-12": 1, "2027-01": 2, "2027-02": 3 }, january));
  t.is(Object.keys(budget.stored()).length, MAX_MONTHS);
  t.false(budget.learn({ "2026-11": 9, "2027-03": 9, "": 9, nothing: 9 }, january));
  budget.learn({ "2027-02": 4 }, Date.UTC(2027, 2, 1));
  t.deepEqual(budget.stored(), { "2027-02": 4 });
});
