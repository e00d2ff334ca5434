/**
 * A TCP relay that cuts each response's body in two at a place that the test says, below all of HTTP, chunk lengths and all: the bytes before
 * it leave as segments of their own. Requests go through as they come; it expects one at a time on a connection, and a head in one segment.
 */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface CuttingProxy {
  readonly url: string;
  /** How many bytes the body of each response had, with its framing, in the order in which they began. */
  readonly bodyBytes: () => readonly number[];
  stop(): void;
}

const HEAD_END = "\r\n\r\n";

interface Relayed {
  /** Of the body, so far; undefined before the head is through. */
  bodyBytes: number | undefined;
  readonly cut: number;
}

/** `nextCut` is asked once a response: after how many bytes its body is cut. */
export const startCuttingProxy = async (upstream: string, nextCut: () => number): Promise<CuttingProxy> => {
  const { hostname, port } = new URL(upstream);
  const responses: Relayed[] = [];
  const sockets = new Set<Socket>();

  const relay = (down: Socket): void => {
    const up = connect(Number(port), hostname);
    for (const [from, to] of [
      [down, up],
      [up, down],
    ] as const) {
      sockets.add(from);
      from.setNoDelay(true);
      from.on("error", () => to.destroy());
      from.on("close", () => to.destroy());
    }
    let response: Relayed | undefined;
    down.on("data", (chunk) => {
      // More of a request than its first bytes may come before the response does.
      if (response?.bodyBytes !== undefined || response === undefined) {
        response = { bodyBytes: undefined, cut: nextCut() };
        responses.push(response);
      }
      up.write(chunk);
    });
    down.on("end", () => up.end());
    up.on("end", () => down.end());
    up.on("data", (chunk: Buffer) => {
      if (response === undefined) return up.destroy();
      const bodyAt = response.bodyBytes === undefined ? chunk.indexOf(HEAD_END) + HEAD_END.length : 0;
      const at = bodyAt + response.cut - (response.bodyBytes ?? 0);
      response.bodyBytes = (response.bodyBytes ?? 0) + chunk.length - bodyAt;
      if (at <= bodyAt || at >= chunk.length) return void down.write(chunk);
      up.pause();
      down.write(chunk.subarray(0, at), () =>
        setImmediate(() => {
          down.write(chunk.subarray(at));
          up.resume();
        }),
      );
    });
  };

  const server = createServer(relay).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bodyBytes: () => responses.map(({ bodyBytes = 0 }) => bodyBytes),
    stop: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
};
