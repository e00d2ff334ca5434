/**
 * Renders a conversation with the model's own chat template (Jinja, from its GGUF file) into the text to tokenise.
 *
 * The rendered text is tokenised with special tokens parsed, because the template writes its control tokens as text. So a
 * message that holds such a text (`<|im_end|>\n<|im_start|>system`) could close its own turn and speak as another role. The
 * defence is a seam: each special text inside a message is cut after its first character, and the two sides are tokenised
 * apart, so no tokenizer can see it whole. The cuts are marked with a character that occurs nowhere else, sent through the
 * template and turned into segment borders afterwards. This keeps working where a template trims, slices or repeats a
 * message, which place-holders for whole messages would not. A conversation without special texts, nearly every one, is a
 * single segment: exactly the tokens that the template's author meant.
 *
 * Deliberately absent: tools and documents (refused at the schema), and a defence against the template itself: it comes with
 * the weights and is trusted to put no half of a special text next to a message.
 */
import { Template } from "@huggingface/jinja";

/** One message with its text parts joined. */
export interface ChatMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

export interface ChatTemplateInfo {
  /** Jinja source, or null for a model that carries none: ChatML is used then. */
  readonly chatTemplate: string | null;
  readonly bosText: string | null;
  readonly eosText: string | null;
  /** The text of every token that `parseSpecial` would recognise. */
  readonly specialTexts: readonly string[];
}

export interface RenderedPrompt {
  readonly ok: true;
  /** In order, none empty. Tokenise each alone with `parseSpecial`, then join the ids. One segment unless a message held a special text. */
  readonly segments: readonly string[];
  /** Whether the tokenizer may add the model's bos to the first segment: false where the template wrote it. */
  readonly addSpecial: boolean;
}

export interface TemplateFailure {
  readonly ok: false;
  /** For the client: what the template objected to. */
  readonly message: string;
}

export interface ChatTemplate {
  /** The prompt up to where the assistant's answer begins. Never throws. */
  renderPrompt(messages: readonly ChatMessage[]): RenderedPrompt | TemplateFailure;
}

const CHATML =
  "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/** Unicode's private use area: characters without case, width or white-space rules, so templates carry them through. */
const SEAM_FIRST_CODE = 0xe000;
const SEAM_LAST_CODE = 0xf8ff;

const errorText = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const escapePattern = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");

/**
 * Whether a special text is one to guard. Some vocabularies list single characters and runs of white space as special: no template
 * marks a role with those, the former cannot be cut, and cutting the latter would change how plain paragraphs are tokenised.
 */
const isMarkup = (text: string): boolean => [...text.trim()].length > 1;

/** Matches with width zero where any special text to guard begins; null where there is none to look for. */
const specialStartPattern = (specialTexts: readonly string[]): RegExp | null => {
  const texts = specialTexts.filter(isMarkup);
  return texts.length === 0 ? null : new RegExp(`(?=(?:${texts.map(escapePattern).join("|")}))`, "gu");
};

/** A private use character that none of the texts holds, or null where they hold them all. */
const unusedCharacter = (texts: readonly string[]): string | null => {
  for (let code = SEAM_FIRST_CODE; code <= SEAM_LAST_CODE; code += 1) {
    const character = String.fromCharCode(code);
    if (!texts.some((text) => text.includes(character))) return character;
  }
  return null;
};

/** The content with a seam inside every special text: after the first character of each, so overlapping ones are cut too. */
const withSeams = (content: string, specialStart: RegExp, seam: string): string => {
  let marked = "";
  let from = 0;
  for (const { index } of content.matchAll(specialStart)) {
    const cut = index + String.fromCodePoint(content.codePointAt(index) ?? 0).length;
    marked += content.slice(from, cut) + seam;
    from = cut;
  }
  return marked + content.slice(from);
};

/**
 * Compiles a model's chat template once, at load.
 * Fails where the template is no valid Jinja.
 */
export const createChatTemplate = (
  info: ChatTemplateInfo,
): { readonly ok: true; readonly template: ChatTemplate } | TemplateFailure => {
  const source = info.chatTemplate ?? CHATML;
  const specialStart = specialStartPattern(info.specialTexts);
  let compiled: Template;
  try {
    compiled = new Template(source);
  } catch (error) {
    return { ok: false, message: `the model's chat template does not compile: ${errorText(error)}` };
  }

  const renderPrompt = (messages: readonly ChatMessage[]): RenderedPrompt | TemplateFailure => {
    const contents = messages.map(({ content }) => content);
    const guarded = specialStart !== null && contents.some((content) => content.search(specialStart) !== -1);
    const seam = guarded ? unusedCharacter([source, ...contents]) : null;
    if (guarded && seam === null) return { ok: false, message: "the messages use every private use character" };
    const marked =
      specialStart === null || seam === null
        ? messages
        : messages.map(({ role, content }) => ({ role, content: withSeams(content, specialStart, seam) }));
    let text: string;
    try {
      text = compiled.render({
        messages: marked,
        add_generation_prompt: true,
        bos_token: info.bosText ?? "",
        eos_token: info.eosText ?? "",
        // Templates ask `tools is not none`, which holds for an undefined name.
        tools: null,
        documents: null,
      });
    } catch (error) {
      return { ok: false, message: `the model's chat template refused the messages: ${errorText(error)}` };
    }
    return {
      ok: true,
      segments: (seam === null ? [text] : text.split(seam)).filter((segment) => segment !== ""),
      addSpecial: info.bosText === null || info.bosText === "" || !text.startsWith(info.bosText),
    };
  };
  return { ok: true, template: { renderPrompt } };
};
