/**
 * The two test subjects that are wrong on purpose, to show that the contracts bite. Nothing in serving imports this.
 *
 * `original` has faults 1 and 2: the lease passes on before the child was drained, and the statistics are the replica's. Its un-awaited
 * `return` stands for Python's finalizer, which closes a dropped generator too late and where nobody sees it fail. `close-only` has fault
 * 2 alone: the child is closed and drained under the lease.
 */
import type { Finish } from "@lockgate/shared-types";
import { generateNative } from "../../replicas/native-turn.ts";
import { closeChild, closeUnstarted, type OpenTurn, settleTurn, takeLease } from "../../replicas/owned-turn.ts";
import { SharedLast } from "./shared-last.ts";

type Order = "release, then close" | "close, then release";

const createFaulty = (order: Order): OpenTurn => {
  const shared = new SharedLast();
  return (admission, request, signal) => {
    const view = shared.view(admission);
    async function* run(): AsyncGenerator<readonly number[], void, void> {
      const { engine, turn } = admission;
      const { slot, release } = await takeLease(admission);
      const answer: number[] = [];
      let finish: Finish | undefined;
      let earlier: unknown;
      const child = generateNative({
        engine,
        slot,
        turn,
        request,
        signal,
        onDone: (statistics) => {
          finish = statistics.finish;
          view.publish(statistics);
        },
      });
      const passOn = async () => {
        const handed = release();
        if (handed !== undefined) await handed;
      };
      try {
        for (let run = await child.next(); !run.done; run = await child.next()) {
          answer.push(...run.value);
          yield run.value;
        }
      } catch (error) {
        earlier = error;
        throw error;
      } finally {
        if (order === "release, then close") {
          settleTurn(admission, finish ?? "cancel", answer);
          await passOn();
          void child.return().catch(() => {});
        } else {
          try {
            await closeChild(child, earlier);
          } finally {
            settleTurn(admission, finish, answer);
            await passOn();
          }
        }
      }
    }
    return { tokens: closeUnstarted(run(), admission), statistics: () => view.read() };
  };
};

/** A fresh subject; its turns share their faulty statistics. */
export const createOriginal = (): OpenTurn => createFaulty("release, then close");

/** A fresh subject; its turns share their faulty statistics. */
export const createCloseOnly = (): OpenTurn => createFaulty("close, then release");
