/**
 * The usage records of the bench's upstream, delivered as an agent delivers its own: signed, in batches, again where the edge did not take
 * them. So that what is measured is an edge whose accounts are kept up to date.
 */
import {
  contentDigest,
  importSigningKey,
  lockgateHeaderNames,
  MAX_USAGE_BATCH,
  type SigningKey,
  signRequest,
  turnIdOf,
  USAGE_PATH,
  type UsageRecord,
} from "@lockgate/shared-types";
import { z } from "zod";

/** From an answer to the delivery of its record where no batch gets full before. */
const BATCH_DELAY_MS = 250;
/** Tries of one batch. */
const MAX_TRIES = 3;

/** An edge that is told of usage, and as whom. */
export const accountSchema = z.object({
  edgeUrl: z.string(),
  agent: z.string(),
  keyId: z.string(),
  /** base64url; it comes over the channel between processes. */
  secret: z.string(),
});
export type Account = z.infer<typeof accountSchema>;

/** The record of a turn at `agent` that had so many tokens; undefined for a request that names no API key. */
export const recordOf = (
  headers: Readonly<Record<string, string | string[] | undefined>>,
  agent: string,
  completionTokens: number,
  nowMs: number,
): UsageRecord | undefined => {
  const [requestId, keyId] = [headers[lockgateHeaderNames.requestId], headers[lockgateHeaderNames.keyId]];
  if (typeof requestId !== "string" || typeof keyId !== "string") return undefined;
  return {
    turn_id: turnIdOf(requestId, 1),
    request_id: requestId,
    attempt: 1,
    key_id: keyId,
    agent_id: agent,
    model: "m",
    replica: 0,
    final: true,
    outcome: "finished",
    finish_reason: "length",
    error_code: null,
    prompt_tokens: 20,
    cached_tokens: 0,
    completion_tokens: completionTokens,
    started_at_ms: nowMs,
    ended_at_ms: nowMs,
    engine: null,
  };
};

/** Posts one batch; resolves with the status. */
export const postUsage = async (
  { edgeUrl, agent }: Account,
  key: SigningKey,
  records: readonly UsageRecord[],
): Promise<number> => {
  const body = new TextEncoder().encode(JSON.stringify({ agent_id: agent, records }));
  const url = `${edgeUrl}${USAGE_PATH}`;
  const lockgate = { requestId: `usage_${crypto.randomUUID()}`, keyId: agent, tenantSalt: "0".repeat(16) };
  const message = { method: "POST", url, contentDigest: await contentDigest(body), lockgate };
  const fields = await signRequest(message, key, Date.now(), crypto.randomUUID());
  const headers: [string, string][] = [...fields, ["content-type", "application/json"]];
  const response = await fetch(url, { method: "POST", headers, body });
  await response.body?.cancel();
  return response.status;
};

export const keyOf = ({ keyId, secret }: Account): Promise<SigningKey> =>
  importSigningKey(keyId, new Uint8Array(Buffer.from(secret, "base64url")));

/** Collects records and delivers them. */
export class Deliveries {
  readonly #account: Account;
  readonly #key: Promise<SigningKey>;
  #waiting: UsageRecord[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(account: Account) {
    this.#account = account;
    this.#key = keyOf(account);
  }

  get agent(): string {
    return this.#account.agent;
  }

  add(record: UsageRecord): void {
    this.#waiting.push(record);
    if (this.#waiting.length >= MAX_USAGE_BATCH) this.#deliver();
    else this.#timer ??= setTimeout(() => this.#deliver(), BATCH_DELAY_MS);
  }

  #deliver(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const records = this.#waiting;
    this.#waiting = [];
    this.#post(records).catch((error: unknown) => process.stderr.write(`usage not delivered: ${error}\n`));
  }

  async #post(records: readonly UsageRecord[]): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      const status = await postUsage(this.#account, await this.#key, records);
      if (status === 204) return;
      if (attempt === MAX_TRIES) throw new Error(`status ${status}`);
    }
  }
}
