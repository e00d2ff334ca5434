-- What each turn used, booked once: agents deliver a record at least once. An edge that fails over sends one request to two agents,
-- each of which counts its turns from 1, so the agent belongs to the key.
CREATE TABLE turns (
  agent_id TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  PRIMARY KEY (agent_id, turn_id)
) WITHOUT ROWID;
