/**
 * Reads the answers of one HTTP/1.1 connection as they come, several behind each other where a client pipelined, and keeps what there is of
 * the last one. Pure: bytes in, answers out. It knows the two framings that the agent uses, chunked and content-length, and no other.
 */

export interface ReadResponse {
  readonly status: number;
  /** Lower-case names; the last of a name counts. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
  /** False where the connection ended, or was left, before the answer did. */
  readonly complete: boolean;
}

/** More than this between two line ends is no head or chunk size of ours. */
const MAX_LINE_BYTES = 64 * 1024;
const CRLF = "\r\n";

interface Open {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly chunked: boolean;
  readonly parts: Buffer[];
  /** Bytes that the body, or its chunk, still needs; null: a chunk's size comes next. */
  missing: number | null;
}

const parseHead = (head: string): { status: number; headers: ReadonlyMap<string, string> } => {
  const [first = "", ...lines] = head.split(CRLF);
  const status = Number(/^HTTP\/1\.1 (\d{3})( |$)/.exec(first)?.[1]);
  if (Number.isNaN(status)) throw new Error(`not a status line: ${first.slice(0, 80)}`);
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(":");
    if (colon < 1) throw new Error(`not a header: ${line.slice(0, 80)}`);
    headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
  }
  return { status, headers };
};

export class ResponseReader {
  readonly #done: ReadResponse[] = [];
  #rest: Buffer = Buffer.alloc(0);
  #open: Open | undefined;
  #bodyBytes = 0;

  /** Answers that came to their end. */
  get complete(): readonly ReadResponse[] {
    return this.#done;
  }

  /** Bytes of bodies so far, over all answers. */
  get bodyBytes(): number {
    return this.#bodyBytes;
  }

  /** Whether the head of the answer after the complete ones is there. */
  get hasHead(): boolean {
    return this.#open !== undefined;
  }

  /** All answers, the one that has only begun included. */
  all(): readonly ReadResponse[] {
    return this.#open === undefined ? this.#done : [...this.#done, this.#close(this.#open, false)];
  }

  /** Takes the next bytes; throws where they are no HTTP. */
  push(bytes: Buffer): void {
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    while (this.#step());
  }

  #step(): boolean {
    const open = this.#open;
    if (open === undefined) return this.#head();
    if (open.missing === null) return this.#chunkSize(open);
    if (open.missing > 0) return this.#take(open, open.missing);
    if (!open.chunked) return this.#finish(open);
    // Behind a chunk stands a line end.
    if (this.#rest.length < CRLF.length) return false;
    this.#rest = this.#rest.subarray(CRLF.length);
    open.missing = null;
    return true;
  }

  #head(): boolean {
    const end = this.#rest.indexOf(CRLF + CRLF);
    if (end === -1) return this.#wait();
    const { status, headers } = parseHead(this.#rest.toString("latin1", 0, end));
    this.#rest = this.#rest.subarray(end + 2 * CRLF.length);
    const chunked = headers.get("transfer-encoding") === "chunked";
    const missing = chunked ? null : Number(headers.get("content-length") ?? 0);
    this.#open = { status, headers, chunked, parts: [], missing };
    return true;
  }

  #chunkSize(open: Open): boolean {
    const end = this.#rest.indexOf(CRLF);
    if (end === -1) return this.#wait();
    const size = Number.parseInt(this.#rest.toString("latin1", 0, end), 16);
    if (Number.isNaN(size)) throw new Error("not a chunk size");
    if (size > 0) {
      this.#rest = this.#rest.subarray(end + CRLF.length);
      open.missing = size;
      return true;
    }
    // The last chunk and the empty trailer.
    if (this.#rest.length < end + 2 * CRLF.length) return false;
    this.#rest = this.#rest.subarray(end + 2 * CRLF.length);
    return this.#finish(open);
  }

  #take(open: Open, missing: number): boolean {
    if (this.#rest.length === 0) return false;
    const part = this.#rest.subarray(0, missing);
    open.parts.push(part);
    this.#bodyBytes += part.length;
    open.missing = missing - part.length;
    this.#rest = this.#rest.subarray(part.length);
    return true;
  }

  #finish(open: Open): true {
    this.#open = undefined;
    this.#done.push(this.#close(open, true));
    return true;
  }

  #wait(): false {
    if (this.#rest.length > MAX_LINE_BYTES) throw new Error("a line without an end");
    return false;
  }

  #close({ status, headers, parts }: Open, complete: boolean): ReadResponse {
    return { status, headers, body: Buffer.concat(parts).toString("utf8"), complete };
  }
}
