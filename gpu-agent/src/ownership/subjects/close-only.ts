/** Test subject with fault 2 alone: the child is closed and drained under the lease, but the statistics are the replica's. */
import type { Finish } from "@lockgate/shared-types";
import { generateNative } from "../../replicas/native-turn.ts";
import { closeChild, closeUnstarted, type OpenTurn, settleTurn, takeLease } from "../../replicas/owned-turn.ts";
import { SharedLast } from "./shared-last.ts";

export const createCloseOnly = (): OpenTurn => {
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
      let earlier: unknown;
      try {
        for (let run = await child.next(); !run.done; run = await child.next()) {
          answer.push(...run.value);
          yield run.value;
        }
      } catch (error) {
        earlier = error;
        throw error;
      } finally {
        try {
          await closeChild(child, earlier);
        } finally {
          settleTurn(admission, finish, answer);
          const handed = lease.release();
          if (handed !== undefined) await handed;
        }
      }
    }
    return {
      tokens: closeUnstarted(run(), admission),
      statistics: () => view.read(),
    };
  };
};
