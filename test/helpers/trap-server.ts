/** A server that nobody is meant to reach: it counts connections and answers none. */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";

export interface TrapServer {
  /** `127.0.0.1:<port>`. */
  readonly authority: string;
  readonly connections: number;
  stop(): Promise<void>;
}

export const startTrapServer = async (): Promise<TrapServer> => {
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    socket.destroy();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    authority: `127.0.0.1:${port}`,
    get connections() {
      return connections;
    },
    async stop() {
      server.close();
      await once(server, "close");
    },
  };
};
