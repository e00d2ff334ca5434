/**
 * The measurements of `bench serve`, from the start of everything to the report: bare decoders, an agent and a client, a warm-up that tells
 * the pace, then the rounds of serve-plan.ts.
 */
import type { ServeConfig } from "../config/load-serve-config.ts";
import { startBareDecoders } from "./bare-decoders.ts";
import type { BenchChildren } from "./children.ts";
import { HTTP_LOAD_COMMAND, startDriver } from "./drivers.ts";
import type { Load, Sample } from "./load.ts";
import { describeMachine } from "./machine.ts";
import { residentMemory } from "./process-figures.ts";
import { sum } from "./quantile.ts";
import { type ConnectionSamples, shortRow, streamRow } from "./serve-figures.ts";
import { efforts, type MeasureName, PACE_TURNS, planRound, SHORT_ANSWER_TOKENS, turnsFor } from "./serve-plan.ts";
import { MESSAGES, prepareQuestion } from "./serve-question.ts";
import type { MemoryRow, ServeReport } from "./serve-report.ts";
import { type ServingAgent, startServingAgent, withoutOurVariables } from "./serving-agent.ts";

export interface ServeMeasurement {
  /** The command line of the agent that is measured, and what it comes to. */
  readonly words: readonly string[];
  readonly config: ServeConfig;
  readonly connections: readonly number[];
  readonly rounds: number;
  readonly tokens: number;
  readonly quick: boolean;
  readonly env: Readonly<NodeJS.ProcessEnv>;
}

type Place = (load: Load) => Promise<Sample>;

/** Starts everything, measures, and says what came of it. */
export const measureServe = async (
  options: ServeMeasurement,
  children: BenchChildren,
  progress: (text: string) => void,
): Promise<ServeReport> => {
  const startedMs = performance.now();
  const machine = describeMachine();
  const { connections, rounds, tokens, config } = options;
  const effort = efforts[options.quick ? "quick" : "full"];
  const { bannedTokens, promptTokens } = await prepareQuestion(config, tokens);

  progress(`starting ${config.replicas === 1 ? "a bare decoder" : `${config.replicas} bare decoders`} and an agent`);
  const env = withoutOurVariables(options.env);
  const [bare, agent, client] = await Promise.all([
    startBareDecoders(children, config, env),
    startServingAgent(children, options.words, env),
    startDriver(children, [HTTP_LOAD_COMMAND], env),
  ]);
  const places: Readonly<Record<MeasureName, Place>> = {
    bare,
    agent: (load) => client.run({ load, target: agent.target }),
    short: (load) => client.run({ load, target: agent.target }),
  };
  const run = (name: MeasureName, callers: number, turns: number): Promise<Sample> => {
    const maxTokens = name === "short" ? SHORT_ANSWER_TOKENS : tokens;
    const expected = { tokens: maxTokens };
    const stream = name !== "short";
    return places[name]({
      callers,
      turns,
      messages: [...MESSAGES],
      maxTokens,
      bannedTokens: [...bannedTokens],
      stream,
      expected,
    });
  };
  const memoryBefore = memoryOf(agent);

  progress("warming up");
  const together = config.replicas * config.slots;
  const first = await run("bare", together, PACE_TURNS * together);
  const warm = (name: MeasureName, { tokens: got, elapsedMs }: Sample) =>
    run(name, together, turnsFor(together, tokens, (got / elapsedMs) * 1000, effort.warmUpS));
  const warmed = await warm("bare", first);
  await warm("agent", warmed);
  const tokensPerS = (warmed.tokens / warmed.elapsedMs) * 1000;

  const samples = new Map(
    connections.map((count): [number, Record<MeasureName, Sample[]>] => [count, { bare: [], agent: [], short: [] }]),
  );
  for (let round = 0; round < rounds; round++) {
    progress(`round ${round + 1} of ${rounds}`);
    for (const { name, connections: count } of planRound(connections, round, rounds)) {
      const length = name === "short" ? SHORT_ANSWER_TOKENS : tokens;
      samples.get(count)?.[name].push(await run(name, count, turnsFor(count, length, tokensPerS, effort.sampleS)));
    }
  }
  const gathered = connections.map(
    (count): ConnectionSamples => ({ connections: count, bare: [], agent: [], short: [], ...samples.get(count) }),
  );
  const streamed = gathered.flatMap((one) => [...one.bare, ...one.agent]);
  const short = gathered.flatMap((one) => one.short);
  return {
    machine,
    model: config.modelName,
    settings: {
      replicas: config.replicas,
      slots: config.slots,
      connections,
      rounds,
      tokens,
      shortAnswerTokens: SHORT_ANSWER_TOKENS,
      promptTokens,
    },
    streams: gathered.map(streamRow),
    shortAnswers: gathered.map(shortRow),
    memory: memoryRows(agent, memoryBefore),
    tokens: {
      asked:
        sum(streamed.map((one) => one.turnMs.length * tokens)) +
        sum(short.map((one) => one.turnMs.length * SHORT_ANSWER_TOKENS)),
      received: sum([...streamed, ...short].map((one) => one.tokens)),
    },
    seconds: Math.round((performance.now() - startedMs) / 1000),
  };
};

const mib = (bytes: number | undefined): number | null => (bytes === undefined ? null : Math.round(bytes / 2 ** 20));

const pidsOf = ({ pids }: ServingAgent): readonly number[] => [pids.agent, ...pids.replicas];

const memoryOf = (agent: ServingAgent) => pidsOf(agent).map((pid) => residentMemory(pid));

const memoryRows = (agent: ServingAgent, before: ReturnType<typeof memoryOf>): MemoryRow[] =>
  memoryOf(agent).map((after, at) => ({
    process: at === 0 ? "agent" : `replica ${at - 1}`,
    beforeMib: mib(before[at]?.nowBytes),
    peakMib: mib(after?.peakBytes),
    afterMib: mib(after?.nowBytes),
  }));
