/** The object behind one API key. */
import { DurableObject } from "cloudflare:workers";
import type { Env } from "../env.ts";

export class KeyGuard extends DurableObject<Env> {
  ping(): string {
    return this.ctx.id.name ?? "";
  }
}
