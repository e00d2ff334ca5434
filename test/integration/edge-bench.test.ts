/** What the edge's bench measures, as it measures it: every place and every rung must do what it is called. */
import test from "ava";
import { bodyKinds } from "../bench/edge-load.ts";
import { probeTakes, rungOf, timeSteps, withEdgePlaces } from "../bench/edge-places.ts";
import { adminClient } from "../helpers/admin-client.ts";
import { poll } from "../helpers/agent-process.ts";

const EVENTS = 8;

test("whole streams come through every place and every rung, and the edge's accounts are kept", async (t) => {
  await withEdgePlaces(async (places) => {
    const load = { connections: 2, forMs: 0, pauseMs: 0, body: "small", events: EVENTS, paceMs: 0 } as const;
    const rungs = ["bare", "identify", "body", "guard", "route", "sign", "hook"].map((rung) => rungOf(places, rung));
    for (const place of [places.direct, places.bare, places.edge, places.ladder, ...rungs]) {
      // The client throws where an answer is not whole.
      const { requests, firstEventMs, eventDelayMs } = await places.run({ ...load, url: place.url, key: place.key });
      t.is(requests, 2, place.url);
      t.is(firstEventMs.length, 2);
      t.true((eventDelayMs?.p50 ?? -1) >= 0);
    }
    for (const body of Object.keys(bodyKinds) as (keyof typeof bodyKinds)[]) {
      const { requests } = await places.run({ ...load, body, url: places.edge.url, key: places.edge.key });
      t.is(requests, 2, body);
    }
    for (const { worker, adminToken, apiKey } of [places.edge, places.ladder]) {
      const admin = adminClient(worker.url, adminToken);
      const { month_tokens } = await poll(
        async () => (await admin("GET", `/keys/${apiKey.id}`)).body.guard,
        (guard) => guard.leases === 0 && guard.open_requests.length === 0,
        "usage of every request",
      );
      t.true(month_tokens > 0);
    }
    t.is((await probeTakes(places.ladder, 3)).length, 3);
    const alone = new Map(await timeSteps(places.ladder, 10));
    t.deepEqual(
      ["identify", "sign", "take and release"].filter((step) => !alone.has(step)),
      [],
    );
  });
});
