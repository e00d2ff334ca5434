/**
 * The client of the edge's bench, a process of its own so that its cost is not the server's: one kept-alive socket a connection, bytes stored
 * with the time of their arrival and read only when the clock has stopped. A bare socket, because HTTP clients cost more than what is measured.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout } from "node:timers/promises";
import { quantile } from "../../gpu-agent/src/bench/quantile.ts";
import {
  bodyKinds,
  bodyOf,
  type ClientAnswer,
  clockUs,
  type EdgeLoad,
  type EdgeSample,
  edgeLoadSchema,
} from "./edge-load.ts";
import { type Arrival, isComplete, readAnswer } from "./edge-response.ts";

const SHOWN_CHARS = 400;

interface Exchange {
  readonly sentUs: number;
  readonly arrivals: readonly Arrival[];
}

/** One request on a socket that is idle. */
const exchange = (socket: Socket, head: Buffer, body: Buffer): Promise<Exchange> =>
  new Promise((resolve, reject) => {
    const arrivals: Arrival[] = [];
    const done = (error?: Error): void => {
      socket.off("data", take).off("error", done).off("close", closed);
      if (error === undefined) resolve({ sentUs, arrivals });
      else reject(error);
    };
    const closed = (): void => done(new Error("the connection ended before the answer did"));
    const take = (bytes: Buffer): void => {
      arrivals.push({ atUs: clockUs(), bytes });
      if (isComplete(arrivals)) done();
    };
    socket.on("data", take).on("error", done).on("close", closed);
    const sentUs = clockUs();
    socket.cork();
    socket.write(head);
    socket.write(body);
    socket.uncork();
  });

interface Read {
  readonly firstEventMs: number | undefined;
  readonly delaysMs: readonly number[];
}

/** Reads an exchange; throws where it is not what the load should get. */
const read = ({ sentUs, arrivals }: Exchange, { body, events: ordered }: EdgeLoad): Read => {
  const { status, text, events } = readAnswer(arrivals);
  const expected = bodyKinds[body];
  if (status !== expected.status || events.length !== (expected.status === 200 ? ordered : 0)) {
    throw new Error(`an answer ${status} with ${events.length} events: ${text.slice(0, SHOWN_CHARS)}`);
  }
  const [first, ...others] = events;
  return {
    firstEventMs: first && (first.arrivedUs - sentUs) / 1000,
    delaysMs: others.map(({ writtenUs, arrivedUs }) => (arrivedUs - writtenUs) / 1000),
  };
};

const openSocket = async ({ hostname, port }: URL): Promise<Socket> => {
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  await once(socket, "connect");
  return socket;
};

/** Runs a load over connections of its own. */
export const runEdgeLoad = async (load: EdgeLoad): Promise<EdgeSample> => {
  const url = new URL(load.url);
  const body = bodyOf(load);
  const head = Buffer.from(
    `POST ${url.pathname} HTTP/1.1\r\nhost: ${url.host}\r\nauthorization: Bearer ${load.key}\r\n` +
      `content-type: application/json\r\ncontent-length: ${body.length}\r\naccept: text/event-stream\r\n\r\n`,
  );
  const sockets = await Promise.all(Array.from({ length: load.connections }, () => openSocket(url)));
  const done: Exchange[] = [];
  const startUs = clockUs();
  const caller = async (socket: Socket): Promise<void> => {
    do {
      done.push(await exchange(socket, head, body));
      if (load.pauseMs > 0) await setTimeout(load.pauseMs);
    } while (clockUs() - startUs < load.forMs * 1000);
  };
  try {
    await Promise.all(sockets.map(caller));
  } finally {
    for (const socket of sockets) socket.destroy();
  }
  const elapsedMs = (clockUs() - startUs) / 1000;
  const answers = done.map((one) => read(one, load));
  const delaysMs = answers.flatMap((answer) => answer.delaysMs);
  return {
    requests: done.length,
    firstEventMs: answers.flatMap(({ firstEventMs }) => firstEventMs ?? []),
    eventDelayMs: delaysMs.length === 0 ? null : { p50: quantile(delaysMs, 0.5), p99: quantile(delaysMs, 0.99) },
    elapsedMs,
  };
};

/** The life of the client's process. */
const serve = (): void => {
  const answer = (message: ClientAnswer) => process.send?.(message, undefined, {}, () => undefined);
  process.once("disconnect", () => process.exit());
  // Ctrl-C reaches the whole foreground group; the bench ends its processes in order.
  process.on("SIGINT", () => undefined);
  process.on("message", (message) => {
    runEdgeLoad(edgeLoadSchema.parse(message)).then(
      (sample) => answer({ sample }),
      (error: unknown) => answer({ fault: error instanceof Error ? error.message : String(error) }),
    );
  });
  answer({ ready: true });
};

if (process.send !== undefined && import.meta.main) serve();
