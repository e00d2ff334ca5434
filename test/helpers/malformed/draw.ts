/** Draws of all kinds from one stream of random numbers, so that a seed repeats them. Pure. */
const LETTERS = "abcdefghijklmnopqrstuvwxyz";
export const KEY_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

export class Draw {
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** A whole number from `least` to `most`, both included. */
  int(least: number, most: number): number {
    return least + Math.floor(this.#random() * (most - least + 1));
  }

  chance(probability: number): boolean {
    return this.#random() < probability;
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.int(0, items.length - 1)];
    if (item === undefined) throw new Error("nothing to pick from");
    return item;
  }

  /** Characters of `alphabet`. */
  text(least: number, most: number, alphabet: string = LETTERS): string {
    return Array.from({ length: this.int(least, most) }, () => alphabet[this.int(0, alphabet.length - 1)]).join("");
  }

  bytes(least: number, most: number): Buffer {
    return Buffer.from(Array.from({ length: this.int(least, most) }, () => this.int(0, 255)));
  }

  /** The text with one letter or digit of it, from `from` to before `to`, made another one. */
  altered(text: string, from = 0, to = text.length): string {
    const places = [...text].flatMap((character, at) =>
      at >= from && at < to && /[A-Za-z0-9]/.test(character) ? [at] : [],
    );
    const at = this.pick(places);
    const other = this.pick([..."0123456789abcdefXYZ"].filter((character) => character !== text[at]));
    return `${text.slice(0, at)}${other}${text.slice(at + 1)}`;
  }
}
