/**
 * SIGTERM while a turn whose client has gone is still being stopped: nobody waits for its answer any more, but its record does for its DONE.
 * The model is slow, so that the engine is in the middle of a prefill chunk when both come.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "ava";
import { makeDeepModel } from "../helpers/deep-model.ts";
import { startScriptedEdge } from "../helpers/scripted-edge.ts";

const deep = makeDeepModel(16);
test.after.always(() => deep.remove());

test("an agent that drains waits for the DONE of a turn whose client is gone, and books its figures", async (t) => {
  const spool = mkdtempSync(join(tmpdir(), "lockgate-spool-"));
  const edge = await startScriptedEdge();
  t.teardown(async () => {
    await edge.stop();
    rmSync(spool, { recursive: true, force: true });
  });
  const agent = await edge.startAgent(["--spool", spool, "--model", deep.path]);
  const gone = new AbortController();
  const content = "word ".repeat(450);
  const asked = agent.chat({ model: "default", messages: [{ role: "user", content }] }, { signal: gone.signal });
  await agent.untilWire((turns) => turns.length === 1, "GEN");
  gone.abort();
  await t.throwsAsync(asked);
  const [stopped] = await agent.untilWire((turns) => (turns[0]?.stopLine ?? -1) > 0, "STOP");
  t.log(stopped?.endLine === -1 ? "the drain began before DONE" : "DONE came before the drain");
  agent.child.kill("SIGTERM");
  t.is(await agent.exited, 0);
  const [turn] = agent.wire();
  const [record] = edge.booked;
  t.is(turn?.done?.finish, "cancel");
  t.like(record, { outcome: "aborted", engine: { finish: "cancel", prompt_read_tokens: turn?.done?.promptRead } });
  t.is(edge.booked.length, 1);
});
