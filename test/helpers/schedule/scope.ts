/**
 * What a family of schedules is made of, and the text of one schedule: `<scope>/<choices>`, enough to run it again.
 *
 * A scope reads `A.tagged.2x3.small.<options>`: subject, variant, replicas × callers, shape of the turns, and options joined by `+`. The
 * choices are one letter a step: which of the events that could happen then, in the fixed order of enabledEvents, did happen.
 */
import { type SubjectName, subjectNames } from "../../../gpu-agent/src/ownership/subjects/index.ts";
import { type TurnShape, type Variant, variants } from "./engine-model.ts";
import { type FaultKind, faultKinds } from "./faults.ts";

/** Whether a subject's statistics lie where another turn writes. */
export const hasSharedStatistics = ({ subject }: Scope): boolean => subject === "original" || subject === "close-only";

export const shapes = {
  /** The least in which every phase but RESUME exists. */
  small: { resume: false, prefillLines: 1, tokenLines: 1, tokensPerLine: 1 },
  /** No prefill line, one token. */
  bare: { resume: false, prefillLines: 0, tokenLines: 1, tokensPerLine: 1 },
  full: { resume: true, prefillLines: 2, tokenLines: 3, tokensPerLine: 1 },
  /** More tokens than a channel of scheme C holds, many in a chunk. */
  burst: { resume: true, prefillLines: 1, tokenLines: 3, tokensPerLine: 30 },
} as const satisfies Record<string, TurnShape>;
export type ShapeName = keyof typeof shapes;

export interface Scope {
  readonly subject: SubjectName;
  readonly variant: Variant;
  readonly replicas: number;
  readonly callers: number;
  readonly shape: ShapeName;
  /** Callers may close, throw and abort, engines may ERR and die: at every point. Without it all turns end naturally or by close. */
  readonly endings: boolean;
  /** Timers may fire at every point, not only when nothing else can happen. */
  readonly timers: boolean;
  /** A released lease holds its predecessor back until the scheduler lets it go on. */
  readonly armed: boolean;
  /** Only what callers see is judged, not the rules of the pipe. */
  readonly callersOnly: boolean;
  /** Faults that may happen, once each. */
  readonly faults: readonly FaultKind[];
  /** Where `cut-line` cuts. */
  readonly cutAt: number;
}

const alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/** Most events that can be chosen from in one step. */
export const MAX_ENABLED = alphabet.length;

/** The text of a scope; `parsePath` reads it. */
export const formatScope = (scope: Scope): string => {
  const options: string[] = [...scope.faults];
  if (scope.callersOnly) options.unshift("callers-only");
  if (scope.armed) options.unshift("armed");
  if (scope.timers) options.unshift("timers");
  if (scope.endings) options.unshift("endings");
  if (scope.cutAt !== 0) options.push(`cut=${scope.cutAt}`);
  return [
    scope.subject,
    scope.variant,
    `${scope.replicas}x${scope.callers}`,
    scope.shape,
    options.length === 0 ? "plain" : options.join("+"),
  ].join(".");
};

export const formatPath = (scope: Scope, choices: readonly number[]): string =>
  `${formatScope(scope)}/${choices.map((choice) => alphabet[choice]).join("")}`;

const oneOf = <T extends string>(word: string | undefined, of: readonly T[], what: string): T => {
  const found = of.find((one) => one === word);
  if (found === undefined) throw new Error(`${what} is one of ${of.join(", ")}, not '${word}'`);
  return found;
};

/** Reads what `formatPath` wrote. Throws with the part that does not parse. */
export const parsePath = (text: string): { readonly scope: Scope; readonly choices: readonly number[] } => {
  const cut = text.indexOf("/");
  if (cut === -1) throw new Error(`a schedule is <scope>/<choices>, not '${text}'`);
  const [subject, variant, size, shape, optionText = ""] = text.slice(0, cut).split(".");
  const sizes = /^([1-9])x([1-9])$/.exec(size ?? "");
  if (sizes === null) throw new Error(`the size is <replicas>x<callers>, not '${size}'`);
  const options = optionText.split("+");
  const flags = ["endings", "timers", "armed", "callers-only", "plain"];
  const cutAt = options.map((option) => /^cut=(\d+)$/.exec(option)?.[1]).find((value) => value !== undefined);
  const choices = [...text.slice(cut + 1)].map((letter) => {
    const choice = alphabet.indexOf(letter);
    if (choice === -1) throw new Error(`'${letter}' is no choice`);
    return choice;
  });
  return {
    scope: {
      subject: oneOf(subject, subjectNames, "the subject"),
      variant: oneOf(variant, variants, "the variant"),
      replicas: Number(sizes[1]),
      callers: Number(sizes[2]),
      shape: oneOf(shape, Object.keys(shapes) as ShapeName[], "the shape"),
      endings: options.includes("endings"),
      timers: options.includes("timers"),
      armed: options.includes("armed"),
      callersOnly: options.includes("callers-only"),
      faults: options
        .filter((option) => !flags.includes(option) && !option.startsWith("cut="))
        .map((option) => oneOf(option, faultKinds, "a fault")),
      cutAt: Number(cutAt ?? 0),
    },
    choices,
  };
};
