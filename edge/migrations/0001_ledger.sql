-- The ledger: what each turn used, and sums of it; and the directory: tenants, keys without their secrets, and who changed what.
-- Times are Unix ms, days and months UTC. A statement ends with a semicolon at the end of a line.

-- What each turn used, booked once: agents deliver a record at least once. An edge that fails over sends one request to two agents,
-- each of which counts its turns from 1, so the agent belongs to the key.
CREATE TABLE turns (
  agent_id TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  request_id TEXT NOT NULL,
  -- Null for a caller with the agent's local key.
  key_id TEXT,
  -- As the directory had it when the turn was booked.
  tenant_id TEXT,
  model TEXT NOT NULL,
  -- Null for a turn that ended before it had one.
  replica INTEGER,
  outcome TEXT NOT NULL,
  finish_reason TEXT,
  error_code TEXT,
  prompt_tokens INTEGER NOT NULL,
  cached_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  started_at_ms INTEGER NOT NULL,
  ended_at_ms INTEGER NOT NULL,
  -- YYYY-MM-DD and YYYY-MM of its end; of its booking where an agent's clock says that it ends in the future.
  day TEXT NOT NULL,
  month TEXT NOT NULL,
  -- The engine's own figures, JSON; null where no DONE was read.
  engine TEXT,
  booked_at_ms INTEGER NOT NULL,
  PRIMARY KEY (agent_id, turn_id)
) WITHOUT ROWID;

CREATE INDEX turns_by_request ON turns (request_id);

-- Sums by day and by all that usage is asked for; '' stands for no key and no tenant.
CREATE TABLE usage_daily (
  day TEXT NOT NULL,
  key_id TEXT NOT NULL,
  tenant_id TEXT NOT NULL,
  model TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  turns INTEGER NOT NULL,
  failed_turns INTEGER NOT NULL,
  aborted_turns INTEGER NOT NULL,
  prompt_tokens INTEGER NOT NULL,
  cached_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  PRIMARY KEY (day, key_id, tenant_id, model, agent_id)
) WITHOUT ROWID;

CREATE INDEX usage_daily_by_key ON usage_daily (key_id, day);

-- What budgets are measured by: prompt and completion tokens of a key in a month.
CREATE TABLE usage_monthly (
  key_id TEXT NOT NULL,
  month TEXT NOT NULL,
  turns INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  PRIMARY KEY (key_id, month)
) WITHOUT ROWID;

-- Requests whose usage record has not come in time. One that comes later takes its request off this list.
CREATE TABLE lost_requests (
  request_id TEXT NOT NULL PRIMARY KEY,
  key_id TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  estimated_tokens INTEGER NOT NULL,
  started_at_ms INTEGER NOT NULL,
  closed_at_ms INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX lost_requests_by_time ON lost_requests (closed_at_ms, request_id);

-- Runs for a turn that is booked, not for one that was booked before: sums are those of the turns, whatever is delivered twice.
CREATE TRIGGER turn_is_booked AFTER INSERT ON turns
BEGIN
  INSERT INTO usage_daily (
    day, key_id, tenant_id, model, agent_id,
    turns, failed_turns, aborted_turns, prompt_tokens, cached_tokens, completion_tokens
  ) VALUES (
    NEW.day, ifnull(NEW.key_id, ''), ifnull(NEW.tenant_id, ''), NEW.model, NEW.agent_id,
    1, NEW.outcome = 'failed', NEW.outcome = 'aborted', NEW.prompt_tokens, NEW.cached_tokens, NEW.completion_tokens
  ) ON CONFLICT (day, key_id, tenant_id, model, agent_id) DO UPDATE SET
    turns = turns + 1,
    failed_turns = failed_turns + excluded.failed_turns,
    aborted_turns = aborted_turns + excluded.aborted_turns,
    prompt_tokens = prompt_tokens + excluded.prompt_tokens,
    cached_tokens = cached_tokens + excluded.cached_tokens,
    completion_tokens = completion_tokens + excluded.completion_tokens;
  INSERT INTO usage_monthly (key_id, month, turns, tokens)
    SELECT NEW.key_id, NEW.month, 1, NEW.prompt_tokens + NEW.completion_tokens WHERE NEW.key_id IS NOT NULL
    ON CONFLICT (key_id, month) DO UPDATE SET turns = turns + 1, tokens = tokens + excluded.tokens;
  DELETE FROM lost_requests WHERE request_id = NEW.request_id;
END;

CREATE TABLE tenants (
  tenant_id TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  changed_at_ms INTEGER NOT NULL
) WITHOUT ROWID;

-- The directory of keys: what is listed. Their guards decide, and alone know the hashes of the secrets.
CREATE TABLE api_keys (
  key_id TEXT NOT NULL PRIMARY KEY,
  tenant_id TEXT NOT NULL REFERENCES tenants (tenant_id),
  name TEXT NOT NULL,
  -- pending: its guard may not know it yet, and nobody was shown its text. Then active, then revoked.
  state TEXT NOT NULL CHECK (state IN ('pending', 'active', 'revoked')),
  -- JSON arrays; models is null for all.
  scopes TEXT NOT NULL,
  models TEXT,
  requests_per_minute INTEGER,
  tokens_per_minute INTEGER,
  concurrency INTEGER,
  tokens_per_month INTEGER,
  expires_at_ms INTEGER,
  revoked_at_ms INTEGER,
  created_at_ms INTEGER NOT NULL,
  changed_at_ms INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX api_keys_by_tenant ON api_keys (tenant_id, key_id);

-- Every change, before and after without secrets. One that stays begun has failed on its way: it may hold or not. One that is refused has
-- met another change.
CREATE TABLE audit_log (
  audit_id INTEGER PRIMARY KEY AUTOINCREMENT,
  at_ms INTEGER NOT NULL,
  -- A fingerprint of the credential.
  actor TEXT NOT NULL,
  request_id TEXT NOT NULL,
  action TEXT NOT NULL,
  subject TEXT NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('begun', 'done', 'refused')),
  -- JSON, null where there is none.
  before TEXT,
  after TEXT
);

CREATE INDEX audit_log_by_subject ON audit_log (subject, audit_id);
CREATE INDEX audit_log_by_request ON audit_log (request_id);
