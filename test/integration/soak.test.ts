/**
 * A short soak, bounded by clients and not by time: an agent that is killed, one that drains, one that is ended at once, and a longer life
 * with a baseline. All closing checks hold. What the checks would say otherwise is in the unit tests of the soak.
 */
import { linuxTest } from "../helpers/linux-test.ts";
import { pickSeed } from "../helpers/seeded-random.ts";
import { formatReport } from "../soak/report.ts";
import { runSoak } from "../soak/run-soak.ts";

const SHORT_LIFE_CLIENTS = 30;
const WARM_UP_CLIENTS = 40;
const LONG_LIFE_CLIENTS = 80;

linuxTest(
  "random clients, kills and signals leave nothing behind: no slot, file, timer or process, and the books balance",
  "/proc",
  async (t) => {
    t.timeout(600_000);
    const seed = pickSeed();
    t.log(`LOCKGATE_SEED=${seed}`);
    const shortLife = { kind: "clients", count: SHORT_LIFE_CLIENTS } as const;
    const report = await runSoak({
      seed,
      replicas: 2,
      slots: 2,
      shortLives: [shortLife, shortLife, shortLife],
      warmUpClients: WARM_UP_CLIENTS,
      longLife: { kind: "clients", count: LONG_LIFE_CLIENTS },
      signal: new AbortController().signal,
      onProgress: () => {},
    });
    const failed = report.checks.filter(({ ok }) => !ok);
    t.deepEqual(failed, [], formatReport(report));
    t.is(report.figures.lives, 4);
    t.is(report.figures.killedLives, 1);
    t.true((report.figures.turnsSeenFinished ?? 0) > 0);
    t.log(`${report.seconds} s; ${JSON.stringify(report.figures)}`);
  },
);
