/** `gpu-agent status` against a real agent: a snapshot for programs and pipes, a view for terminals. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import test from "ava";
import { runAgentCommand } from "../helpers/agent-command.ts";
import { type AgentUnderTest, agentEntry, startAgentUnderTest } from "../helpers/agent-process.ts";
import { expectedAnswers } from "../helpers/expected-answers.ts";
import { openTerminal } from "../helpers/terminal.ts";

let agent: AgentUnderTest;
test.before(async () => {
  agent = await startAgentUnderTest(["--replicas", "2", "--log-level", "error"]);
});
test.after.always(async () => {
  await agent?.stop();
});

const status = (words: readonly string[], key = agent.localKey) =>
  runAgentCommand(["status", "--url", agent.url, ...words], { env: { LOCKGATE_LOCAL_KEY: key } });

/** Asks one question after the other until `ended`; resolves with how many were answered. */
const keepBusy = async (ended: Promise<unknown>): Promise<number> => {
  const [item] = expectedAnswers;
  let over = false;
  void ended.finally(() => {
    over = true;
  });
  let answered = 0;
  while (!over) {
    await (await agent.chat({ model: "default", messages: item?.messages })).arrayBuffer();
    answered += 1;
  }
  return answered;
};

interface StatusJson {
  readonly model: string;
  readonly tokens_per_second: number;
  readonly replicas: readonly { state: string; pid: number; tokens_per_second: number }[];
}

test.serial(
  "--json is one line with the agent's replicas, and the tokens/s that they make at this moment",
  async (t) => {
    const idle = await status(["--json"]);
    t.is(idle.code, 0, idle.stderr);
    t.is(idle.stdout.trimEnd().split("\n").length, 1);
    const before = JSON.parse(idle.stdout) as StatusJson;
    t.is(before.tokens_per_second, 0);
    t.deepEqual(
      before.replicas.map(({ pid }) => pid),
      [...agent.pids.replicas],
    );
    const asked = status(["--json"]);
    t.true((await keepBusy(asked)) > 0);
    const busy = JSON.parse((await asked).stdout) as StatusJson;
    t.true(busy.tokens_per_second > 0, JSON.stringify(busy));
    t.is(
      busy.tokens_per_second,
      busy.replicas.reduce((sum, replica) => sum + replica.tokens_per_second, 0),
    );
  },
);

test.serial("without a terminal it prints one table and no escape sequence", async (t) => {
  const { code, stdout } = await status([]);
  t.is(code, 0);
  t.regex(stdout, new RegExp(`^tiny-atlas-3m-q8_0 on ${agent.url}: 2 of 2 replicas ready\n`));
  t.regex(stdout, /^REPLICA +STATE /m);
  for (const [index, pid] of agent.pids.replicas.entries()) {
    t.regex(stdout, new RegExp(`^${index} +ready +1/1 .* ${pid}$`, "m"));
  }
  t.false(stdout.includes("\u001b"));
});

test.serial("a wrong key or none ends with 78, and the key is not shown", async (t) => {
  const wrong = await status([], "a-key-that-is-not-the-agents");
  t.is(wrong.code, 78);
  t.regex(wrong.stderr, /does not take the key in LOCKGATE_LOCAL_KEY/);
  t.false(wrong.stderr.includes("a-key-that"));
  const none = await status([], "");
  t.is(none.code, 78);
  t.regex(none.stderr, /set LOCKGATE_LOCAL_KEY/);
});

test.serial("no agent, or a server that is none, ends with 69", async (t) => {
  const stranger = createServer((_, response) => response.end("<html>"));
  stranger.listen(0, "127.0.0.1");
  await once(stranger, "listening");
  const url = `http://127.0.0.1:${(stranger.address() as AddressInfo).port}`;
  const ask = () => runAgentCommand(["status", "--url", url], { env: { LOCKGATE_LOCAL_KEY: agent.localKey } });
  const answered = await ask();
  t.is(answered.code, 69);
  t.regex(answered.stderr, /not as an agent does/);
  stranger.closeAllConnections();
  stranger.close();
  await once(stranger, "close");
  const gone = await ask();
  t.is(gone.code, 69);
  t.regex(gone.stderr, /does not answer \(ECONNREFUSED\)/);
});

const draws = (drawn: string): number => drawn.split("\u001b[H").length - 1;

test.serial("in a terminal it draws again and again, and Ctrl-C gives the screen back and ends with 0", async (t) => {
  const terminal = openTerminal(agentEntry, ["status", "--url", agent.url], { LOCKGATE_LOCAL_KEY: agent.localKey });
  await terminal.until((drawn) => draws(drawn) >= 3);
  t.true(terminal.drawn().startsWith("\u001b[?1049h"), "the alternate screen");
  t.true(terminal.drawn().includes("2 of 2 replicas ready"));
  terminal.press("\u0003");
  t.is(await terminal.exited, 0);
  t.true(terminal.drawn().endsWith("\u001b[?25h\u001b[?1049l"), "the cursor and the screen are back");
  t.is((await agent.status()).replicas.length, 2);
});

test.serial("the view outlives its agent, and says that it is gone", async (t) => {
  const other = await startAgentUnderTest(["--log-level", "error"]);
  const terminal = openTerminal(agentEntry, ["status", "--url", other.url], { LOCKGATE_LOCAL_KEY: other.localKey });
  await terminal.until((drawn) => drawn.includes("1 of 1 replicas ready"));
  await other.stop();
  await terminal.until((drawn) => /does not answer \(ECONN/.test(drawn));
  terminal.press("\u0003");
  t.is(await terminal.exited, 0);
});
