/**
 * HTTP/1.1 by hand over a bare socket: the bytes of a test go out as they are, well-formed or not, and every answer that comes is taken apart.
 *
 * An ordinary client would refuse to send most of it.
 */
import { EventEmitter, once } from "node:events";
import { connect, type Socket } from "node:net";

/** What is answered at all is answered in a moment; a machine under load gets more. */
const ANSWER_TIMEOUT_MS = 60_000;

export interface RawAnswer {
  readonly status: number;
  /** Names in lower case; several lines of one joined by a comma and a space. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer;
}

interface Cut<T> {
  readonly value: T;
  readonly rest: Buffer;
}

const cutChunks = (bytes: Buffer): Cut<Buffer> | undefined => {
  const chunks: Buffer[] = [];
  for (let at = 0; ; ) {
    const lineEnd = bytes.indexOf("\r\n", at);
    if (lineEnd < 0) return undefined;
    const length = Number.parseInt(bytes.toString("latin1", at, lineEnd), 16);
    const end = lineEnd + 2 + length;
    if (bytes.length < end + 2) return undefined;
    if (length === 0) return { value: Buffer.concat(chunks), rest: bytes.subarray(end + 2) };
    chunks.push(bytes.subarray(lineEnd + 2, end));
    at = end + 2;
  }
};

/** The first answer in `bytes`, interim ones passed over; undefined while it is not complete. `isHead`: it has no body. */
const cutAnswer = (bytes: Buffer, isHead: boolean): Cut<RawAnswer> | undefined => {
  const headEnd = bytes.indexOf("\r\n\r\n");
  if (headEnd < 0) return undefined;
  const [statusLine = "", ...lines] = bytes.toString("latin1", 0, headEnd).split("\r\n");
  const status = Number(statusLine.split(" ")[1]);
  const rest = bytes.subarray(headEnd + 4);
  if (status < 200) return cutAnswer(rest, isHead);
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(":");
    const name = line.slice(0, colon).toLowerCase();
    const value = line.slice(colon + 1).trim();
    headers.set(name, headers.has(name) ? `${headers.get(name)}, ${value}` : value);
  }
  if (isHead || status === 204 || status === 304) return { value: { status, headers, body: Buffer.alloc(0) }, rest };
  if (headers.get("transfer-encoding") === "chunked") {
    const body = cutChunks(rest);
    return body && { value: { status, headers, body: body.value }, rest: body.rest };
  }
  const length = Number(headers.get("content-length") ?? 0);
  if (rest.length < length) return undefined;
  return { value: { status, headers, body: rest.subarray(0, length) }, rest: rest.subarray(length) };
};

const openSocket = (url: string): Socket => {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.setNoDelay(true);
  socket.setTimeout(ANSWER_TIMEOUT_MS, () => socket.destroy());
  // How a connection ends is told by what came before.
  socket.on("error", () => undefined);
  return socket;
};

/** Sends bytes on a connection of their own, says that no more come, and gives every answer up to the end of the connection. */
export const sendRaw = async (url: string, bytes: string | Buffer, isHead = false): Promise<RawAnswer[]> => {
  const socket = openSocket(url);
  const chunks: Buffer[] = [];
  socket.on("data", (chunk) => chunks.push(chunk));
  const startedAtMs = Date.now();
  socket.end(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
  if (!socket.destroyed) await once(socket, "close");
  if (Date.now() - startedAtMs >= ANSWER_TIMEOUT_MS) throw new Error("the connection was left open");
  const answers: RawAnswer[] = [];
  let rest = Buffer.concat(chunks);
  for (let cut = cutAnswer(rest, isHead); cut !== undefined; cut = cutAnswer(rest, isHead)) {
    answers.push(cut.value);
    rest = Buffer.from(cut.rest);
  }
  if (rest.length > 0) throw new Error(`an answer is not complete: ${rest.toString("latin1").slice(0, 200)}`);
  return answers;
};

/** One client that keeps its connection for as long as the server does. */
export class RawConnection {
  readonly #url: string;
  #socket: Socket | undefined;
  #received = Buffer.alloc(0);
  readonly #events = new EventEmitter();

  constructor(url: string) {
    this.#url = url;
  }

  /** Sends one well-framed request and gives its answer. Throws if the connection ends without one. */
  async ask(bytes: Buffer, isHead = false): Promise<RawAnswer> {
    this.#socket ??= this.#open();
    const socket = this.#socket;
    socket.write(bytes);
    for (;;) {
      const cut = cutAnswer(this.#received, isHead);
      if (cut !== undefined) {
        this.#received = Buffer.from(cut.rest);
        if (cut.value.headers.get("connection") === "close") this.close();
        return cut.value;
      }
      if (socket.destroyed) {
        this.#socket = undefined;
        throw new Error(`the connection ended after ${this.#received.toString("latin1").slice(0, 100) || "nothing"}`);
      }
      await once(this.#events, "news");
    }
  }

  close(): void {
    this.#socket?.destroy();
    this.#socket = undefined;
    this.#received = Buffer.alloc(0);
  }

  #open(): Socket {
    const socket = openSocket(this.#url);
    this.#received = Buffer.alloc(0);
    socket.on("data", (chunk) => {
      if (this.#socket !== socket) return;
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#events.emit("news");
    });
    socket.on("close", () => this.#events.emit("news"));
    return socket;
  }
}
