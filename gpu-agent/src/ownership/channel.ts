/** A bounded channel of token ids between one owner and one caller (scheme C). One putter, one taker. */
export class Channel {
  readonly #capacity: number;
  #tokens: number[] = [];
  #ended = false;
  #closed = false;
  #arrival: PromiseWithResolvers<void> | undefined;
  #space: PromiseWithResolvers<void> | undefined;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get full(): boolean {
    return this.#tokens.length >= this.#capacity;
  }

  /** True once the taker wants no more. */
  get closed(): boolean {
    return this.#closed;
  }

  put(token: number): void {
    if (this.full) throw new Error(`the channel holds ${this.#capacity} tokens already`);
    this.#tokens.push(token);
    this.#wakeTaker();
  }

  /** Resolves when there is room or the taker is gone. */
  async room(): Promise<void> {
    while (this.full && !this.#closed) {
      this.#space ??= Promise.withResolvers<void>();
      await this.#space.promise;
    }
  }

  /** All that lies there, or null at the end. */
  async take(): Promise<readonly number[] | null> {
    for (;;) {
      if (this.#tokens.length > 0) {
        const taken = this.#tokens;
        this.#tokens = [];
        this.#wakePutter();
        return taken;
      }
      if (this.#ended) return null;
      this.#arrival ??= Promise.withResolvers<void>();
      await this.#arrival.promise;
    }
  }

  /** Nothing more will be put. */
  end(): void {
    this.#ended = true;
    this.#wakeTaker();
  }

  /** The taker wants no more; what lies there is dropped. */
  close(): void {
    this.#closed = true;
    this.#tokens = [];
    this.#wakePutter();
  }

  #wakeTaker(): void {
    this.#arrival?.resolve();
    this.#arrival = undefined;
  }

  #wakePutter(): void {
    this.#space?.resolve();
    this.#space = undefined;
  }
}
