import assert from "node:assert/strict";
import test from "ava";
import fc from "fast-check";
import { formatIds } from "../../gpu-agent/src/replicas/format-ids.ts";

test("property: ids are written as join writes them, from numbers and Int32Array alike", (t) => {
  const id = fc.oneof(
    fc.nat(2 ** 31 - 1),
    fc.nat(20),
    fc.constantFrom(0, 9, 10, 99, 100, 999_999_999, 1_000_000_000, 2 ** 31 - 1),
  );
  t.notThrows(() =>
    fc.assert(
      fc.property(fc.array(id, { maxLength: 200 }), (ids) => {
        assert.equal(formatIds(ids), ids.join(","));
        assert.equal(formatIds(Int32Array.from(ids)), ids.join(","));
      }),
    ),
  );
});
