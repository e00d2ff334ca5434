/**
 * Faults as events: when each can strike an engine, and what it does. A fault strikes the first lane where it can.
 */
import type { ScheduledProcess } from "./scheduled-process.ts";

export const faultKinds = [
  "exit",
  "exit-before-output",
  "stdout-closed",
  "err",
  "done-never",
  "done-twice",
  "token-after-done",
  "done-5-words",
  "done-40-words",
  "done-nan",
  "long-line",
  "cut-line",
  "bad-utf8",
  "freeze",
  "wedge",
  "stdin-full",
] as const;
export type FaultKind = (typeof faultKinds)[number];

/** A fault that can strike now. */
export interface Strike {
  /** Under which name it is counted; says the phase for a death. */
  readonly name: string;
  run(): void;
}

/** Where in a turn an engine can die. */
export const deathPhases = [
  "while idle",
  "before RESUME",
  "during PP",
  "between T and T",
  "between T and DONE",
  "after DONE before unlock",
] as const;

/** Where in its turn an engine is. `held`: somebody owns a lease of it. */
const deathPhase = (process: ScheduledProcess, held: boolean): (typeof deathPhases)[number] => {
  const slot = process.books.findIndex((_, index) => process.out(index));
  if (slot === -1) return held ? "after DONE before unlock" : "while idle";
  const next = process.model.next(slot, false);
  if (next === "RESUME") return "before RESUME";
  if (next === "PP") return "during PP";
  return next === "DONE" ? "between T and DONE" : "between T and T";
};

/** How a fault strikes this process now; undefined where it cannot. `cutAt` is where `cut-line` cuts; `held` as in deathPhase. */
export const strikeOf = (
  kind: FaultKind,
  process: ScheduledProcess,
  cutAt: number,
  held: boolean,
): Strike | undefined => {
  const { model } = process;
  const strike = (run: () => void, name: string = kind): Strike => ({ name, run });
  const slotWhere = (where: (slot: number) => boolean): number | undefined => {
    for (let slot = 0; slot < model.lanes; slot++) if (where(slot)) return slot;
    return undefined;
  };
  const next = (slot: number) => model.next(slot, process.stdinFull);
  const whole = process.speaks && process.alive && process.rest === undefined;

  switch (kind) {
    case "exit":
      if (!process.alive) return undefined;
      return strike(
        () => {
          process.exit("SIGSEGV");
          process.end();
        },
        `exit ${deathPhase(process, held)}`,
      );
    case "exit-before-output":
      return process.alive && process.ready ? strike(() => process.exit("SIGSEGV")) : undefined;
    case "stdout-closed":
      return process.ready && !process.ended ? strike(() => process.end()) : undefined;
    case "freeze":
      return process.alive && process.ready && !process.frozen ? strike(() => process.freeze()) : undefined;
    case "wedge":
      if (!process.alive || process.unkillable) return undefined;
      return strike(() => {
        process.freeze();
        process.unkillable = true;
      });
    case "stdin-full":
      return process.alive && !process.stdinFull ? strike(() => process.fillStdin()) : undefined;
    case "long-line":
      return whole ? strike(() => process.putLongLine()) : undefined;
    case "bad-utf8":
      return whole
        ? strike(() => process.putBroken(Buffer.from([0x50, 0x50, 0x20, 0xff, 0xfe, 0x0a]), "bytes that are not UTF-8"))
        : undefined;
    case "done-never": {
      const slot = slotWhere((slot) => next(slot) === "DONE");
      return slot === undefined ? undefined : strike(() => model.mute(slot));
    }
    case "err":
    case "cut-line": {
      const slot = whole ? slotWhere((slot) => next(slot) !== undefined) : undefined;
      if (slot === undefined) return undefined;
      return kind === "err"
        ? strike(() => process.put(model.refuse(slot), slot))
        : strike(() => process.put(model.say(slot), slot, cutAt));
    }
    default: {
      const slot = whole ? slotWhere((slot) => next(slot) === "DONE") : undefined;
      return slot === undefined ? undefined : strike(() => brokenDone(kind, process, slot));
    }
  }
};

type DoneFault = "done-twice" | "token-after-done" | "done-5-words" | "done-40-words" | "done-nan";

/** Says the DONE of a lane in a way that it should not be said. */
const brokenDone = (kind: DoneFault, process: ScheduledProcess, slot: number): void => {
  const said = process.model.say(slot);
  const tag = / turn=\d+\n$/.exec(said.text)?.[0] ?? "\n";
  const words = said.text.slice(0, -tag.length).split(" ");
  const head = words.slice(0, words.length - 15);
  const batched = head.length > 1 ? ` ${slot}` : "";
  switch (kind) {
    case "done-twice":
      process.put(said, slot);
      process.strays.push({ slot, text: said.text });
      return;
    case "token-after-done":
      process.put(said, slot);
      process.strays.push({ slot, text: `${batched === "" ? "T" : `BT${batched}`} 999999${tag}` });
      return;
    case "done-40-words":
      process.put({ ...said, text: `${[...words, ...new Array(24).fill("7")].join(" ")}${tag}` }, slot);
      return;
    case "done-5-words":
      process.putBroken(
        Buffer.from(`${[...head, ...words.slice(head.length, head.length + 4)].join(" ")}${tag}`),
        kind,
      );
      return;
    case "done-nan": {
      const broken = [...words];
      broken[head.length] = "NaN";
      process.putBroken(Buffer.from(`${broken.join(" ")}${tag}`), kind);
    }
  }
};
