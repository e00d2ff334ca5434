/**
 * The model as the agent's own process knows it: name, template, tokenizer and the texts of its tokens. Weights are loaded by the replica
 * hosts alone; here the vocabulary is.
 */
import { basename } from "node:path";
import { loadModel, type Model } from "@lockgate/native";
import { DEFAULT_MODEL_NAME } from "@lockgate/shared-types";
import { type ChatMessage, type ChatTemplate, createChatTemplate } from "../prompt/chat-template.ts";
import { createPieceTexts, type PieceTexts } from "../prompt/detokenizer.ts";

/**
 * A prompt of at most so many characters is tokenised where it is: that takes up to 0.4 ms, mostly far less, and handing it to another
 * thread and back took 0.3 to 0.5 on a machine whose cores sleep. Longer ones would hold everybody up.
 */
const MAX_SYNC_CHARS = 1_024;

/** Parts that a prompt is tokenised in; each text of a special token inside a message makes one more (see chat-template.ts). */
const MAX_SEGMENTS = 1_024;

export type TokenizedPrompt =
  | { readonly ok: true; readonly prompt: Int32Array }
  | { readonly ok: false; readonly message: string };

export class ServedModel {
  readonly name: string;
  /** Unix time, seconds, at which it was loaded. */
  readonly created: number;
  readonly fingerprint: string;
  readonly pieceTexts: PieceTexts;
  readonly endTokens: ReadonlySet<number>;
  readonly #model: Model;
  readonly #longestTokenBytes: number;
  readonly #template: ChatTemplate;

  private constructor(name: string, created: number, model: Model, template: ChatTemplate) {
    this.name = name;
    this.created = created;
    this.#model = model;
    this.#template = template;
    this.fingerprint = `lockgate_${model.info.architecture}_${model.info.parameters}`;
    this.pieceTexts = createPieceTexts(model.pieces());
    const { offsets } = this.pieceTexts.pieces;
    const pieceBytes = offsets.subarray(1).reduce((most, end, token) => Math.max(most, end - (offsets[token] ?? 0)), 1);
    this.#longestTokenBytes = model.info.specialTexts.reduce(
      (most, text) => Math.max(most, Buffer.byteLength(text)),
      pieceBytes,
    );
    this.endTokens = new Set(model.info.endTokens);
  }

  /**
   * Loads the vocabulary of a GGUF. Rejects with the native module's coded errors, and with a plain Error for a chat template that does
   * not parse.
   */
  static async load(path: string, name: string | undefined, nowMs: number): Promise<ServedModel> {
    const model = await loadModel({ path, vocabOnly: true });
    const { chatTemplate, bosText, eosText, specialTexts } = model.info;
    const made = createChatTemplate({ chatTemplate, bosText, eosText, specialTexts });
    if (!made.ok)
      throw Object.assign(new Error(`${path}: the chat template cannot be used: ${made.message}`), {
        code: "ERR_NOT_A_MODEL",
      });
    return new ServedModel(name ?? basename(path, ".gguf"), Math.floor(nowMs / 1000), model, made.template);
  }

  /** Whether a client that says `name` means this model. */
  answersTo(name: string): boolean {
    return name === this.name || name === DEFAULT_MODEL_NAME;
  }

  get vocabSize(): number {
    return this.pieceTexts.pieces.offsets.length - 1;
  }

  /**
   * The least number of tokens that these messages can have, from their length alone: no token of this model is longer than its longest.
   * Cheap, so that what cannot fit is refused before templates and tokenizers spend seconds on it.
   */
  leastTokens(messages: readonly ChatMessage[]): number {
    const bytes = messages.reduce((sum, { content }) => sum + Buffer.byteLength(content), 0);
    return Math.ceil(bytes / this.#longestTokenBytes);
  }

  /** The token ids of a conversation up to where the answer begins. */
  async tokenize(messages: readonly ChatMessage[]): Promise<TokenizedPrompt> {
    const rendered = this.#template.renderPrompt(messages);
    if (!rendered.ok) return rendered;
    if (rendered.segments.length > MAX_SEGMENTS) {
      return {
        ok: false,
        message: `the messages hold more than ${MAX_SEGMENTS - 1} texts of this model's special tokens`,
      };
    }
    const optionsOf = (at: number) => ({ parseSpecial: true, addSpecial: at === 0 && rendered.addSpecial });
    const [only, ...others] = rendered.segments;
    if (only !== undefined && others.length === 0) {
      const isShort = only.length <= MAX_SYNC_CHARS;
      const prompt = isShort ? this.#model.tokenizeSync(only, optionsOf(0)) : this.#model.tokenize(only, optionsOf(0));
      return { ok: true, prompt: await prompt };
    }
    const parts = await Promise.all(
      rendered.segments.map((segment, at) => this.#model.tokenize(segment, optionsOf(at))),
    );
    const prompt = new Int32Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      prompt.set(part, at);
      at += part.length;
    }
    return { ok: true, prompt };
  }

  async close(): Promise<void> {
    await this.#model.close();
  }
}
