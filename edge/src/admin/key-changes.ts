/**
 * Making, changing, rotating and revoking a key, over its guard (which decides) and the directory (which is listed).
 *
 * The order makes a break at any point harmless: a new key is entered as pending, then its guard learns of it, then it becomes active, and
 * its text leaves last; a revocation reaches the guard first. Guards compare before they set, so of two changes at once one is told. A
 * database or a guard that fails makes the action fail (it throws): callers tell the asker to try again, and every action may be repeated.
 */
import type { KeyDefinition } from "../admit/key-guard-types.ts";
import { runOne } from "../usage/ledger.ts";
import { audit, auditIfChanged, finishAudit } from "./audit.ts";
import {
  auditedDefinition,
  changedDefinition,
  MAX_SECRETS,
  newDefinition,
  newEntry,
  rotatedSecrets,
} from "./key-definition.ts";
import { activateKey, insertKey, keyEntries, keyStatement, revokeEntry, updateKey } from "./key-directory.ts";
import type { KeyChange, KeyEntry, NewKey, ShownKey } from "./key-schemas.ts";
import { done, type Outcome, type Refusal, refuse } from "./outcome.ts";
import type { AdminContext } from "./ports.ts";

/** How often a revocation is tried against other changes that get in between. */
const MAX_REVOKE_TRIES = 8;

const subjectOf = (keyId: string): string => `key:${keyId}`;
const noSuchKey = (): Refusal => refuse("not_found", "There is no such key.");
const changedMeanwhile = (): Refusal =>
  refuse("conflict", "Another change of this key came in between. Look and try again.");

const expiryInPast = (expiresAtMs: number | null | undefined, nowMs: number): Refusal | undefined =>
  typeof expiresAtMs === "number" && expiresAtMs <= nowMs
    ? refuse("invalid_value", "expires_at_ms: must lie in the future; revoke a key to end it now", "expires_at_ms")
    : undefined;

/** The directory's entry; undefined where there is none. */
export const findKey = async ({ ports }: AdminContext, keyId: string): Promise<KeyEntry | undefined> =>
  (await ports.isGenuineKeyId(keyId))
    ? keyEntries((await runOne(ports.ledger, keyStatement(keyId))).rows)[0]
    : undefined;

/** Makes a key; the value is the only place where its text ever is. */
export const createKey = async ({ ports, asker }: AdminContext, asked: NewKey): Promise<Outcome<ShownKey>> => {
  const past = expiryInPast(asked.expires_at_ms, asker.nowMs);
  if (past !== undefined) return past;
  const { keyId, text, sha256 } = await ports.mintKey();
  const definition = newDefinition(asked, keyId, sha256);
  const entry = newEntry(definition, asked.name, asker.nowMs);
  const after = auditedDefinition(definition, asked.name);
  const [entered] = await ports.ledger([
    insertKey(entry),
    auditIfChanged(asker, { action: "key.create", subject: subjectOf(keyId), before: null, after }, "begun"),
  ]);
  if (entered?.changes !== 1) return refuse("invalid_value", "tenant: there is no such tenant", "tenant");

  const guard = ports.guardOf(keyId);
  if (!(await guard.define(definition, null))) return changedMeanwhile();
  const [activated] = await ports.ledger([activateKey(keyId), finishAudit(asker, "done")]);
  if (activated?.changes !== 1) {
    // It was revoked while it was still pending: the guard did not know it then.
    await guard.define({ ...definition, revokedAtMs: asker.nowMs }, definition);
    return refuse("conflict", "The key was revoked before it was made.");
  }
  return done({ ...entry, state: "active", key: text });
};

type Changeable = { readonly entry: KeyEntry; readonly definition: KeyDefinition };

/** What a change starts from: an active key, as its guard has it. */
const changeable = async (context: AdminContext, keyId: string): Promise<Outcome<Changeable>> => {
  const entry = await findKey(context, keyId);
  if (entry === undefined) return noSuchKey();
  const definition = (await context.ports.guardOf(keyId).view())?.definition;
  if (entry.state === "pending" || definition === undefined) {
    return refuse("conflict", "The key's creation broke off and nobody was shown it. Revoke it and make another.");
  }
  if (entry.state === "revoked" || definition.revokedAtMs !== null) return refuse("conflict", "The key is revoked.");
  return done({ entry, definition });
};

/** Changes what is asked for; the value is the entry afterwards. */
export const changeKey = async (
  context: AdminContext,
  keyId: string,
  change: KeyChange,
): Promise<Outcome<KeyEntry>> => {
  const { ports, asker } = context;
  const past = expiryInPast(change.expires_at_ms, asker.nowMs);
  if (past !== undefined) return past;
  const found = await changeable(context, keyId);
  if (!found.ok) return found;
  const { entry, definition } = found.value;
  const next = changedDefinition(definition, change);
  const name = change.name ?? entry.name;
  const before = auditedDefinition(definition, entry.name);
  const after = auditedDefinition(next, name);
  await runOne(ports.ledger, audit(asker, { action: "key.change", subject: subjectOf(keyId), before, after }, "begun"));
  if (!(await ports.guardOf(keyId).define(next, definition))) {
    await runOne(ports.ledger, finishAudit(asker, "refused"));
    return changedMeanwhile();
  }
  const [, , rows] = await ports.ledger([
    updateKey(next, name, asker.nowMs),
    finishAudit(asker, "done"),
    keyStatement(keyId),
  ]);
  const [changed] = keyEntries(rows?.rows ?? []);
  return changed === undefined ? noSuchKey() : done(changed);
};

/** Gives a key a new secret; those from before go on for `overlapMs`. */
export const rotateKey = async (
  context: AdminContext,
  keyId: string,
  overlapMs: number,
): Promise<Outcome<ShownKey>> => {
  const { ports, asker } = context;
  const found = await changeable(context, keyId);
  if (!found.ok) return found;
  const { entry, definition } = found.value;
  const { text, sha256 } = await ports.mintSecret(keyId);
  const secrets = rotatedSecrets(definition.secrets, sha256, overlapMs, asker.nowMs);
  if (secrets.length > MAX_SECRETS) {
    return refuse(
      "conflict",
      `${secrets.length - 1} secrets from before are still taken, and ${MAX_SECRETS - 1} may be. Wait, or rotate with overlap_s 0.`,
      "overlap_s",
    );
  }
  const next = { ...definition, secrets };
  const before = auditedDefinition(definition, entry.name);
  const after = auditedDefinition(next, entry.name);
  await runOne(ports.ledger, audit(asker, { action: "key.rotate", subject: subjectOf(keyId), before, after }, "begun"));
  if (!(await ports.guardOf(keyId).define(next, definition))) {
    await runOne(ports.ledger, finishAudit(asker, "refused"));
    return changedMeanwhile();
  }
  try {
    await ports.ledger([updateKey(next, entry.name, asker.nowMs), finishAudit(asker, "done")]);
  } catch (error) {
    // The guard takes the new secret from here on: who does not get to see it now never will.
    ports.logError("audit_not_finished", { subject: subjectOf(keyId), cause: (error as Error).message });
  }
  return done({ ...entry, changed_at_ms: asker.nowMs, key: text });
};

/** Revokes a key for ever. It holds from the guard's answer on, also where the directory cannot be told. */
export const revokeKey = async ({ ports, asker }: AdminContext, keyId: string): Promise<Outcome<KeyEntry>> => {
  if (!(await ports.isGenuineKeyId(keyId))) return noSuchKey();
  const guard = ports.guardOf(keyId);
  let definition: KeyDefinition | undefined;
  for (let tries = 0; ; tries += 1) {
    if (tries >= MAX_REVOKE_TRIES) return changedMeanwhile();
    definition = (await guard.view())?.definition;
    if (definition === undefined || definition.revokedAtMs !== null) break;
    if (await guard.define({ ...definition, revokedAtMs: asker.nowMs }, definition)) break;
  }
  const revokedAtMs = definition?.revokedAtMs ?? asker.nowMs;
  const before = definition === undefined ? null : { revoked_at_ms: null };
  const change = { action: "key.revoke", subject: subjectOf(keyId), before, after: { revoked_at_ms: revokedAtMs } };
  const [, , rows] = await ports.ledger([
    revokeEntry(keyId, revokedAtMs),
    auditIfChanged(asker, change, "done"),
    keyStatement(keyId),
  ]);
  const [entry] = keyEntries(rows?.rows ?? []);
  return entry === undefined ? noSuchKey() : done(entry);
};
