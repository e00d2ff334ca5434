/** Makes the admin API's ports of the worker's bindings. It checks nothing and decides nothing. */
import {
  API_KEY_RANDOM_BYTES,
  API_KEY_SECRET_BYTES,
  isGenuineKeyId,
  mintApiKey,
  mintSecret,
} from "../admit/api-key-format.ts";
import type { Env } from "../env.ts";
import type { Agent } from "../fleet/agents-config.ts";
import { fleetOf } from "../fleet/fleet-object.ts";
import { type AgentRow, NO_OVERRIDE } from "../fleet/fleet-table.ts";
import { logError } from "../log.ts";
import { ledgerOf } from "../usage/ledger.ts";
import type { FleetAgent } from "./fleet-port.ts";
import type { AdminPorts } from "./ports.ts";

const fleetAgent = ({ name, weight }: Agent, row: AgentRow | undefined): FleetAgent => {
  const override = row?.override ?? NO_OVERRIDE;
  return {
    name,
    disabled: override.disabled,
    weight: override.weight ?? weight,
    heartbeat:
      row === undefined || row.heartbeat === null || row.beatAtMs === null
        ? null
        : { receivedAtMs: row.beatAtMs, message: row.heartbeat },
  };
};

/** `macKey` is that of KEY_ID_SECRET, `agents` those of the configuration. */
export const portsOfEnv = (env: Env, macKey: CryptoKey, agents: readonly Agent[]): AdminPorts => ({
  ledger: ledgerOf(env.LEDGER),
  guardOf: (keyId) => env.KEY_GUARDS.get(env.KEY_GUARDS.idFromName(keyId)),
  isGenuineKeyId: (keyId) => isGenuineKeyId(macKey, keyId),
  mintKey: () => mintApiKey(macKey, crypto.getRandomValues(new Uint8Array(API_KEY_RANDOM_BYTES))),
  mintSecret: (keyId) => mintSecret(keyId, crypto.getRandomValues(new Uint8Array(API_KEY_SECRET_BYTES))),
  fleet: {
    agents: async () => {
      const { rows } = await fleetOf(env).snapshot();
      return agents.map((agent) =>
        fleetAgent(
          agent,
          rows?.find(({ name }) => name === agent.name),
        ),
      );
    },
    setAgent: async (name, override) => {
      await fleetOf(env).setAgent(name, override);
    },
  },
  logError,
});
