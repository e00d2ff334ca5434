import { createHash } from "node:crypto";
import test from "ava";
import { adminAccess } from "../../edge/src/admin/credential.ts";

const token = "adm_0123456789";
const hash = createHash("sha256").update(token).digest("hex");

test("the token whose hash is configured is let in, under a name that is not the token", async (t) => {
  for (const scheme of ["Bearer", "bearer"]) {
    const access = await adminAccess(hash, `${scheme} ${token}`);
    t.deepEqual(access, { kind: "allowed", actor: `admin-${hash.slice(0, 12)}` });
  }
});

test("nothing else is let in", async (t) => {
  for (const field of [
    null,
    "",
    token,
    "Bearer",
    `Bearer ${token}x`,
    `Bearer ${hash}`,
    `Basic ${token}`,
    `Bearer ${token}, Bearer ${token}`,
  ]) {
    t.is((await adminAccess(hash, field)).kind, "refused", String(field));
  }
});

test("without a hash there is no admin API, whatever is sent; a malformed one opens nothing", async (t) => {
  t.is((await adminAccess(undefined, `Bearer ${token}`)).kind, "absent");
  t.is((await adminAccess("", `Bearer ${token}`)).kind, "absent");
  for (const wrong of [hash.toUpperCase(), hash.slice(1), token, `${hash}\n`]) {
    t.is((await adminAccess(wrong, `Bearer ${token}`)).kind, "misconfigured");
  }
});
