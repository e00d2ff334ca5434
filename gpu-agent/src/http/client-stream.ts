/**
 * The one writer of a client's socket: gathers what a turn has to say, writes it in one piece, waits for a slow client within a bound,
 * and speaks up when nothing else was sent for a while. It knows bytes, not events.
 */
import type { ServerResponse } from "node:http";
import { ClientGone } from "../turn/run-turn.ts";

export interface ClientStreamOptions {
  readonly response: ServerResponse;
  /** What is written when nothing else was for `keepAliveMs`: a comment in a stream, a space before JSON. */
  readonly keepAlive: () => string;
  readonly keepAliveMs: number;
  /** A client that takes nothing for so long counts as gone. */
  readonly writeStallMs: number;
}

export class ClientStream {
  readonly #response: ServerResponse;
  readonly #options: ClientStreamOptions;
  readonly #timer: NodeJS.Timeout;
  #pending = "";
  #wroteSinceTick = true;

  constructor(options: ClientStreamOptions) {
    this.#options = options;
    this.#response = options.response;
    this.#timer = setInterval(() => this.#tick(), options.keepAliveMs / 2);
  }

  /** Queues text; nothing is sent before flush. */
  text(text: string): void {
    this.#pending += text;
  }

  /**
   * Sends what is queued. Undefined when the socket took it; else a promise for the moment it has room again, which rejects with
   * ClientGone when the client went away or took nothing for the write-stall limit.
   */
  flush(): Promise<void> | undefined {
    if (this.#pending === "") return undefined;
    const text = this.#pending;
    this.#pending = "";
    this.#wroteSinceTick = true;
    if (this.#response.destroyed) return Promise.reject(new ClientGone("the client went away"));
    return this.#response.write(text) ? undefined : this.#room();
  }

  /** Sends what is queued and ends the body cleanly; a client that does not take it within the write-stall limit is cut off. */
  end(): void {
    this.close();
    const response = this.#response;
    const stall = setTimeout(() => response.destroy(), this.#options.writeStallMs);
    response.once("close", () => clearTimeout(stall));
    response.end(this.#pending);
    this.#pending = "";
  }

  /** Resets the connection: the client must not take this for an end. */
  reset(): void {
    this.close();
    this.#response.destroy();
  }

  /** Stops the keep-alive. Idempotent. */
  close(): void {
    clearInterval(this.#timer);
  }

  /** The keep-alive is at most keepAliveMs behind the last byte: the timer ticks twice as often. */
  #tick(): void {
    const quiet = !this.#wroteSinceTick;
    this.#wroteSinceTick = false;
    if (!quiet || this.#response.writableNeedDrain || this.#response.destroyed) return;
    this.#wroteSinceTick = true;
    this.#response.write(this.#options.keepAlive());
  }

  #room(): Promise<void> {
    const response = this.#response;
    return new Promise((resolve, reject) => {
      const settle = (error?: Error) => {
        clearTimeout(stall);
        response.off("drain", onDrain);
        response.off("close", onClose);
        if (error === undefined) resolve();
        else reject(error);
      };
      const onDrain = () => settle();
      const onClose = () => settle(new ClientGone("the client went away"));
      const stall = setTimeout(() => {
        const { writeStallMs } = this.#options;
        settle(new ClientGone(`the client took nothing for ${writeStallMs} ms`));
        response.destroy();
      }, this.#options.writeStallMs);
      response.on("drain", onDrain);
      response.on("close", onClose);
    });
  }
}
