/** What the admin API asks of the fleet. Types alone. */
import type { Heartbeat } from "@lockgate/shared-types";

/** One configured agent, as the fleet has it. */
export interface FleetAgent {
  readonly name: string;
  /** True: it gets no new turns, whatever it says of itself. */
  readonly disabled: boolean;
  readonly weight: number;
  /** Null before the first. */
  readonly heartbeat: { readonly receivedAtMs: number; readonly message: Heartbeat } | null;
}

/** What an operator sets; absent leaves it as it is, a null weight takes the configuration's again. */
export interface AgentOverride {
  readonly disabled?: boolean;
  readonly weight?: number | null;
}

export interface FleetPort {
  /** The agents of the configuration, in its order. */
  agents(): Promise<readonly FleetAgent[]>;
  /** Durable when it resolves. To be called for configured agents alone. */
  setAgent(name: string, override: AgentOverride): Promise<void>;
}
