/** The recorded evidence: every byte is as it was recorded, and it shows what it is kept for. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import test from "ava";
import { z } from "zod";

const directory = new URL("../fixtures/evidence/", import.meta.url);
const bytesOf = (name: string): Buffer => readFileSync(new URL(name, directory));

const manifestSchema = z.object({
  files: z.array(z.object({ name: z.string(), bytes: z.number(), sha256: z.string() })),
});
const { files } = manifestSchema.parse(JSON.parse(bytesOf("manifest.json").toString()));

/** What differs from the manifest; empty when nothing does. */
const differences = (read: (name: string) => Buffer): string[] =>
  files
    .filter(({ name, bytes, sha256 }) => {
      const found = read(name);
      return found.length !== bytes || createHash("sha256").update(found).digest("hex") !== sha256;
    })
    .map(({ name }) => name);

test("every file is listed and has the recorded bytes", (t) => {
  t.deepEqual(readdirSync(directory).toSorted(), [...files.map(({ name }) => name), "manifest.json"].toSorted());
  t.deepEqual(differences(bytesOf), []);
});

test("one byte that changes is found, in every file", (t) => {
  for (const { name } of files) {
    const changed = (wanted: string): Buffer => {
      const bytes = Buffer.from(bytesOf(wanted));
      if (wanted === name) bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1);
      return bytes;
    };
    t.deepEqual(differences(changed), [name]);
  }
});

const answer = (name: string) => {
  const stream = bytesOf(name).toString();
  const chunks = stream
    .split("\n\n")
    .filter((event) => event.startsWith("data: {"))
    .map((event) => JSON.parse(event.slice(6)));
  return {
    text: chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join(""),
    usage: chunks.at(-1).usage,
    timings: chunks.map(({ timings }) => timings).find(Boolean),
  };
};

test("every stream ends in [DONE] with its blank line, LF alone", (t) => {
  for (const { name } of files.filter(({ name }) => name.endsWith(".sse"))) {
    const bytes = bytesOf(name);
    t.true(bytes.toString().endsWith("data: [DONE]\n\n"), name);
    t.false(bytes.includes(0x0d), name);
  }
});

test("before the repair the second caller got no token, and the first one's engine figures", (t) => {
  const [first, second] = [answer("caller-1.original.sse"), answer("caller-2.original.sse")];
  t.is(second.text, "");
  t.is(second.usage.completion_tokens, 0);
  t.deepEqual(second.timings, first.timings);
});

test("after it both callers got their own identifier and their own figures", (t) => {
  const [first, second] = [answer("caller-1.repaired.sse"), answer("caller-2.repaired.sse")];
  t.is(first.text, "SLOT-1-RVN-802");
  t.is(second.text, "SLOT-3-RVN-23858");
  t.is(second.usage.completion_tokens, second.timings.predicted_n);
  t.notDeepEqual(second.timings, first.timings);
});
