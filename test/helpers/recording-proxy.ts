/** A TCP relay that keeps every byte of the upstream's side: what an agent really wrote, below all of HTTP. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface RecordingProxy {
  readonly url: string;
  /** What the upstream sent, by connection, in order. */
  readonly received: () => readonly Buffer[];
  stop(): void;
}

export const startRecordingProxy = async (upstream: string): Promise<RecordingProxy> => {
  const { hostname, port } = new URL(upstream);
  const chunks: Buffer[][] = [];
  const sockets = new Set<Socket>();
  const server = createServer((down) => {
    const kept: Buffer[] = [];
    chunks.push(kept);
    const up = connect(Number(port), hostname);
    for (const [from, to] of [
      [down, up],
      [up, down],
    ] as const) {
      sockets.add(from);
      from.on("error", () => to.destroy());
      from.on("close", () => to.destroy());
      from.pipe(to);
    }
    up.on("data", (chunk: Buffer) => kept.push(chunk));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received: () => chunks.map((kept) => Buffer.concat(kept)),
    stop: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
};

const CRLF = "\r\n";

/** The bodies of the HTTP/1.1 responses on one connection (RFC 9112: chunked, or by content-length). Throws where one is incomplete. */
export const bodiesOf = (bytes: Buffer): Buffer[] => {
  const bodies: Buffer[] = [];
  let at = 0;
  while (at < bytes.length) {
    const headEnd = bytes.indexOf(CRLF + CRLF, at);
    const head = bytes.toString("latin1", at, headEnd).toLowerCase();
    at = headEnd + 4;
    const length = /content-length: *(\d+)/.exec(head)?.[1];
    const body: Buffer[] = [];
    if (length !== undefined) {
      body.push(bytes.subarray(at, at + Number(length)));
      at += Number(length);
    } else {
      for (;;) {
        const lineEnd = bytes.indexOf(CRLF, at);
        if (lineEnd === -1) throw new Error("a chunked body is cut short");
        const size = Number.parseInt(bytes.toString("latin1", at, lineEnd), 16);
        at = lineEnd + 2;
        body.push(bytes.subarray(at, at + size));
        at += size + 2;
        if (size === 0) break;
      }
    }
    bodies.push(Buffer.concat(body));
  }
  return bodies;
};
