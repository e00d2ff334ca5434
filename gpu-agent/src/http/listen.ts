/** Makes a server listen, and tells where. No other event of the server is looked at. */
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";

/** Resolves with the server's own URL, without a path; port 0 takes a free one. Rejects with the system's error. */
export const listen = (server: Server, host: string, port: number): Promise<string> =>
  new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      const address = server.address() as AddressInfo;
      resolve(`http://${address.family === "IPv6" ? `[${address.address}]` : address.address}:${address.port}`);
    });
  });
