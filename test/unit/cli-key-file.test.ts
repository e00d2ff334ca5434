import { parseSigningKeys } from "@lockgate/shared-types";
import test from "ava";
import { createdKeyFile, KEPT_KEYS, keyIdsOf, rotatedKeyFile } from "../../gpu-agent/src/cli/key-file.ts";

const secretOf = (fill: number) => Buffer.alloc(32, fill).toString("base64url");
const key = (name: string, fill: number) => ({ id: name, secret: secretOf(fill) });

const rotated = (text: string, next: ReturnType<typeof key>) => {
  const result = rotatedKeyFile(text, next);
  if (!result.ok) throw new Error(result.hint);
  return result;
};

test("a created file is one that edge and agent parse, with the key in it", (t) => {
  const parsed = parseSigningKeys(createdKeyFile(key("k-1", 1)));
  t.true(parsed.ok);
  t.deepEqual(parsed.ok && [...parsed.keys], [["k-1", new Uint8Array(32).fill(1)]]);
});

test("rotating puts the new key first, keeps its predecessor with its secret, and drops the rest", (t) => {
  const second = rotated(createdKeyFile(key("k-1", 1)), key("k-2", 2));
  t.deepEqual([second.kept, second.dropped], [["k-1"], []]);
  const third = rotated(second.text, key("k-3", 3));
  t.deepEqual([third.kept, third.dropped], [["k-2"], ["k-1"]]);
  const parsed = parseSigningKeys(third.text);
  t.deepEqual(parsed.ok && [...parsed.keys], [
    ["k-3", new Uint8Array(32).fill(3)],
    ["k-2", new Uint8Array(32).fill(2)],
  ]);
  t.is(parsed.ok && parsed.keys.size, KEPT_KEYS);
  t.deepEqual(keyIdsOf(third.text), { ok: true, ids: ["k-3", "k-2"] });
});

test("what is no file of keys is refused without a part of it in the hint", (t) => {
  for (const text of ["s3cret", '{"k": "s3cret"}', "[]", `{"bad id": "${secretOf(1)}"}`]) {
    const result = rotatedKeyFile(text, key("k-2", 2));
    t.false(result.ok, text);
    t.false(!result.ok && result.hint.includes("s3cret"));
    t.false(keyIdsOf(text).ok, text);
  }
});
