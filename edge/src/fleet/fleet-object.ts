/** The one object that keeps the table of agents. */
import { DurableObject } from "cloudflare:workers";
import type { Env } from "../env.ts";

/** The one object's name. */
export const FLEET_NAME = "fleet";

export class Fleet extends DurableObject<Env> {
  ping(): string {
    return this.ctx.id.name ?? "";
  }
}
