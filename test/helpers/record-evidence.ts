/**
 * Records the evidence of the ownership faults and their repair into a new directory: the raw request bytes of two callers, and the raw
 * body bytes that each got, with the subject `original` and with the serving scheme. Real model, real agent, one replica.
 *
 * `node test/helpers/record-evidence.ts DIR [SEED]`. The hand-over of the faulty subject is armed by chance, so it asks again until the
 * fault has shown; what is recorded is what was received, byte for byte. The files in test/fixtures/evidence came from here.
 */
import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type AgentUnderTest, atRest, startAgentUnderTest } from "./agent-process.ts";

/** Pairs of callers that are tried before the recorder gives up. */
const MAX_TRIES = 500;

const requestOf = (identifier: string, filler: string, extra: object): string =>
  JSON.stringify({
    model: "default",
    stream: true,
    stream_options: { include_usage: true },
    max_tokens: 48,
    ...extra,
    messages: [{ role: "user", content: `${filler} The ticket is ${identifier}. ${filler} What is the ticket?` }],
  });

const filler = "Note 48: the rabbit must not meet the garden. A glove is early sharp and young.";
/** The first caller stops early, at a stop string; the second is the one that read its DONE. Historic identifiers of the report. */
const requests = {
  "caller-1": requestOf("SLOT-1-RVN-80206", filler, { stop: "06" }),
  "caller-2": requestOf("SLOT-3-RVN-23858", filler, {}),
} as const;

const ask = async (agent: AgentUnderTest, body: string): Promise<Buffer> => {
  const response = await fetch(`${agent.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${agent.localKey}`, "content-type": "application/json" },
    body,
  });
  return Buffer.from(await response.arrayBuffer());
};

/** Both callers at once, the first ahead in the queue. */
const askBoth = async (agent: AgentUnderTest): Promise<readonly [Buffer, Buffer]> => {
  const answers = await Promise.all([ask(agent, requests["caller-1"]), ask(agent, requests["caller-2"])]);
  await agent.until(atRest, "rest");
  return answers;
};

const isEmptyReply = (stream: Buffer): boolean => {
  const text = stream.toString();
  return /"finish_reason":"(stop|length)"/.test(text) && !/"content":"[^"]/.test(text);
};

const main = async (directory: string, seed: string): Promise<void> => {
  mkdirSync(directory);
  const faulty = await startAgentUnderTest(["--replicas", "1", "--heal-cooldown", "1", "--log-level", "error"], {
    script: fileURLToPath(new URL("faulty-agent.ts", import.meta.url)),
    words: ["original", seed, "serve"],
  });
  let before: readonly [Buffer, Buffer] | undefined;
  for (let tries = 0; tries < MAX_TRIES && before === undefined; tries++) {
    const answers = await askBoth(faulty);
    if (isEmptyReply(answers[1])) before = answers;
  }
  faulty.child.kill("SIGKILL");
  if (before === undefined) throw new Error(`no empty reply in ${MAX_TRIES} tries`);
  const repaired = await startAgentUnderTest(["--replicas", "1", "--log-level", "error"]);
  const after = await askBoth(repaired);
  await repaired.stop();

  const files: Record<string, Buffer> = {
    "caller-1.request.json": Buffer.from(requests["caller-1"]),
    "caller-2.request.json": Buffer.from(requests["caller-2"]),
    "caller-1.original.sse": before[0],
    "caller-2.original.sse": before[1],
    "caller-1.repaired.sse": after[0],
    "caller-2.repaired.sse": after[1],
  };
  const manifest = Object.entries(files).map(([name, bytes]) => {
    writeFileSync(join(directory, name), bytes);
    return { name, bytes: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") };
  });
  writeFileSync(join(directory, "manifest.json"), `${JSON.stringify({ files: manifest }, null, 2)}\n`);
};

const [directory, seed = "1"] = process.argv.slice(2);
if (directory === undefined) throw new Error("name the directory to record into");
await main(directory, seed);
process.exit(0);
