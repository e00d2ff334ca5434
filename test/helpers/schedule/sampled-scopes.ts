/**
 * The large scope that is sampled: more callers than the replicas have places for, all shapes and variants, timers that fire at any time,
 * and up to two faults. Each fault is drawn equally often, so that rare ones are not left out.
 */
import type { SubjectName } from "../../../gpu-agent/src/ownership/subjects/index.ts";
import { variants } from "./engine-model.ts";
import { faultKinds } from "./faults.ts";
import type { Scope, ShapeName } from "./scope.ts";

/** More callers than two replicas run and queue, so that some are refused. */
const MAX_CALLERS = 7;
const shapeCycle: readonly ShapeName[] = ["full", "small", "full", "burst"];

/** The scope of the sampled schedule with this index; every subject goes through all variants, shapes and faults in turn. */
export const sampledScope =
  (subject: SubjectName) =>
  (index: number, random: () => number): Scope => {
    const draw = (below: number) => Math.floor(random() * below);
    const first = faultKinds[index % (faultKinds.length + 1)];
    const second = draw(2) === 0 ? faultKinds[draw(faultKinds.length)] : undefined;
    const faults = [...new Set([first, second])].filter((kind) => kind !== undefined);
    return {
      subject,
      variant: variants[draw(variants.length)] ?? "untagged",
      replicas: 2,
      callers: 3 + draw(MAX_CALLERS - 2),
      shape: shapeCycle[draw(shapeCycle.length)] ?? "full",
      endings: true,
      timers: draw(4) > 0,
      armed: draw(2) === 0,
      callersOnly: false,
      faults,
      cutAt: draw(256),
    };
  };
