/** Database and guards that fail at the N-th call, before or after they did what was asked, for N = 1, 2, … until nothing fails any more. */
import { createHash } from "node:crypto";
import test, { type ExecutionContext } from "ava";
import { type AdminApi, type Answer, adminNowMs, openAdminApi } from "../helpers/admin-api.ts";

type When = "before" | "after";

/** Lets the `nth` call of ledger and guards together fail. Tells whether it came to that. */
const failAt = (api: AdminApi, nth: number, wanted: When): (() => boolean) => {
  let calls = 0;
  let failed = false;
  const fault = (when: When): void => {
    if (when !== wanted) return;
    calls += 1;
    if (calls !== nth) return;
    failed = true;
    throw new Error("scripted fault");
  };
  api.memory.fault = fault;
  api.guards.fault = fault;
  return () => {
    api.memory.fault = () => {};
    api.guards.fault = () => {};
    return failed;
  };
};

/** Runs an action under each fault; `judge` sees how it ended. Returns how many faults there were. */
const underEachFault = async (
  t: ExecutionContext,
  act: (
    api: AdminApi,
  ) => Promise<{ answer: () => Promise<Answer>; judge: (answer: Answer, failed: boolean) => Promise<void> }>,
): Promise<number> => {
  let faults = 0;
  for (const when of ["before", "after"] as const) {
    for (let nth = 1; ; nth += 1) {
      const api = await openAdminApi();
      const { answer, judge } = await act(api);
      const end = failAt(api, nth, when);
      const answered = await answer();
      const failed = end();
      await judge(answered, failed);
      if (!failed) break;
      faults += 1;
      if (answered.status === 503) t.is(answered.body.error.code, "overloaded", `${when} ${nth}`);
    }
  }
  return faults;
};

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

test("a creation that breaks off anywhere leaves nothing that anybody could use, and what is left can be revoked", async (t) => {
  const faults = await underEachFault(t, async (api) => {
    await api.ask("POST", "/tenants", { tenant: "acme" });
    return {
      answer: () => api.ask("POST", "/keys", { tenant: "acme", name: "ci" }),
      judge: async (answer, failed) => {
        t.is(answer.status, failed ? 503 : 201);
        const { body } = await api.ask("GET", "/keys");
        if (!failed) {
          t.is(body.data[0].state, "active");
          return;
        }
        t.false(JSON.stringify(answer.body).includes("lg_"), "nobody was shown the key");
        for (const key of body.data) {
          const details = await api.ask("GET", `/keys/${key.key_id}`);
          // Active without having been shown only where the answer of the last transaction was lost.
          t.true(key.state === "pending" || details.body.guard.agrees, key.state);
          t.is((await api.ask("POST", `/keys/${key.key_id}/revoke`)).status, 200);
          t.not(api.guards.definitions.get(key.key_id)?.revokedAtMs, null);
          t.is((await api.ask("GET", `/keys/${key.key_id}`)).body.state, "revoked");
        }
      },
    };
  });
  t.true(faults >= 6, String(faults));
});

test("a revocation that is answered as failed holds as soon as the guard had it, and repeating it brings the directory up to date", async (t) => {
  const faults = await underEachFault(t, async (api) => {
    const { id } = await api.makeKey();
    return {
      answer: () => api.ask("POST", `/keys/${id}/revoke`),
      judge: async (answer, failed) => {
        t.is(answer.status, failed ? 503 : 200);
        t.is((await api.ask("POST", `/keys/${id}/revoke`)).status, 200);
        t.is(api.guards.definitions.get(id)?.revokedAtMs, adminNowMs);
        const { body } = await api.ask("GET", `/keys/${id}`);
        t.like(body, { state: "revoked", revoked_at_ms: adminNowMs, guard: { agrees: true } });
        t.is(api.memory.query("SELECT * FROM audit_log WHERE action = 'key.revoke'").length, 1);
      },
    };
  });
  t.true(faults >= 6, String(faults));
});

test("a revocation does not need the database to hold", async (t) => {
  const api = await openAdminApi();
  const { id } = await api.makeKey();
  api.memory.fault = () => {
    throw new Error("the database is gone");
  };
  t.is((await api.ask("POST", `/keys/${id}/revoke`)).status, 503);
  t.is(api.guards.definitions.get(id)?.revokedAtMs, adminNowMs);
});

test("a change that breaks off is in the audit log if it holds, and repeating it makes directory and guard agree", async (t) => {
  await underEachFault(t, async (api) => {
    const { id } = await api.makeKey();
    const change = { limits: { concurrency: 3 } };
    return {
      answer: () => api.ask("PATCH", `/keys/${id}`, change),
      judge: async (answer, failed) => {
        t.is(answer.status, failed ? 503 : 200);
        const holds = api.guards.definitions.get(id)?.limits.concurrency === 3;
        const rows = api.memory.query("SELECT outcome FROM audit_log WHERE action = 'key.change'");
        if (holds) t.is(rows.length, 1);
        t.is((await api.ask("PATCH", `/keys/${id}`, change)).status, 200);
        t.like((await api.ask("GET", `/keys/${id}`)).body, { limits: { concurrency: 3 }, guard: { agrees: true } });
      },
    };
  });
});

test("a rotation that breaks off leaves the client's secret in force for the overlap, and is answered with the new one once the guard has it", async (t) => {
  await underEachFault(t, async (api) => {
    const { id, text } = await api.makeKey();
    return {
      answer: () => api.ask("POST", `/keys/${id}/rotate`, { overlap_s: 60 }),
      judge: async (answer) => {
        const secrets = api.guards.definitions.get(id)?.secrets ?? [];
        t.true(secrets.some((secret) => secret.sha256 === sha256(text)));
        if (answer.status === 200) t.is(secrets[0]?.sha256, sha256(answer.body.key));
        else t.is(answer.status, 503);
        t.is((await api.ask("POST", `/keys/${id}/rotate`, { overlap_s: 60 })).status, 200);
        t.true(api.guards.definitions.get(id)?.secrets.some((secret) => secret.sha256 === sha256(text)));
      },
    };
  });
});

test("what only the database knows changes with its audit row or not at all", async (t) => {
  await underEachFault(t, async (api) => ({
    answer: () => api.ask("POST", "/tenants", { tenant: "acme", name: "Acme" }),
    judge: async () => {
      t.is(
        api.memory.query("SELECT * FROM tenants").length,
        api.memory.query("SELECT * FROM audit_log WHERE outcome = 'done'").length,
      );
    },
  }));
});

test("a failure is told without its cause, which is logged", async (t) => {
  const api = await openAdminApi();
  api.memory.fault = () => {
    throw new Error("D1_ERROR: secret internals");
  };
  const { status, body } = await api.ask("GET", "/keys");
  t.is(status, 503);
  t.deepEqual(Object.keys(body.error).sort(), ["code", "message", "param", "type"]);
  t.false(JSON.stringify(body).includes("internals"));
  t.deepEqual(api.logged, ["admin_failed"]);
});
