/**
 * Test subject with faults 1 and 2: the lease passes on before the child was drained, and the statistics are the replica's.
 *
 * The un-awaited `return` stands for Python's finalizer, which closes a dropped generator too late and where nobody sees it fail.
 */
import type { Finish } from "@lockgate/shared-types";
import { generateNative } from "../../replicas/native-turn.ts";
import { closeUnstarted, type OpenTurn, settleTurn, takeLease } from "../../replicas/owned-turn.ts";
import { SharedLast } from "./shared-last.ts";

export const createOriginal = (): OpenTurn => {
  const shared = new SharedLast();
  return (admission, request, signal) => {
    const view = shared.view(admission);
    async function* run(): AsyncGenerator<readonly number[], void, void> {
      const { engine, turn } = admission;
      const lease = await takeLease(admission);
      const answer: number[] = [];
      let finish: Finish | undefined;
      const child = generateNative({
        engine,
        slot: lease.slot,
        turn,
        request,
        signal,
        onDone: (statistics) => {
          finish = statistics.finish;
          view.publish(statistics);
        },
      });
      try {
        for (let run = await child.next(); !run.done; run = await child.next()) {
          answer.push(...run.value);
          yield run.value;
        }
      } finally {
        settleTurn(admission, finish ?? "cancel", answer);
        const handed = lease.release();
        if (handed !== undefined) await handed;
        void child.return().catch(() => {});
      }
    }
    return {
      tokens: closeUnstarted(run(), admission),
      statistics: () => view.read(),
    };
  };
};
