/**
 * Connections on which nobody has said anything yet. Clients open some ahead of need, and Node's closeIdleConnections leaves those alone:
 * without this a single one would hold up a drain to its end. It closes no connection that a byte of a request has come on.
 */
import type { Server } from "node:http";
import type { Socket } from "node:net";

/** Watches `server` from now on; the returned function closes the untouched ones. Bounded by the server's open connections. */
export const watchUntouchedConnections = (server: Server): (() => void) => {
  const open = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
  });
  return () => {
    for (const socket of open) if (socket.bytesRead === 0) socket.destroy();
  };
};
