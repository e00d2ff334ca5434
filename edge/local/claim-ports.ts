/**
 * Settles before anything starts which ports it will have: edge and agents need each other's.
 *
 * It looks and lets go again; nothing holds a port until its owner listens. One that is lost in between shows when the owner starts.
 */
import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";

/** A port that is wanted, 0 for any that is free; and the flag that asked for it. */
export interface WantedPort {
  readonly port: number;
  readonly flag: string;
}

export type ClaimedPorts =
  | { readonly ok: true; readonly ports: readonly number[] }
  | { readonly ok: false; readonly message: string };

const codeOf = (error: unknown): unknown => (error instanceof Error && "code" in error ? error.code : "unknown");

/** One port for each that is wanted, all different; or what to tell of the first that cannot be had. */
export const claimPorts = async (wanted: readonly WantedPort[]): Promise<ClaimedPorts> => {
  const probes: Server[] = [];
  try {
    const ports: number[] = [];
    for (const { port, flag } of wanted) {
      const probe = createServer();
      probes.push(probe);
      try {
        // Refused above 65535 by an exception, in use by an event.
        await once(probe.listen(port, "127.0.0.1"), "listening");
      } catch (error) {
        const message = `port ${port} cannot be used (${codeOf(error)}); choose another with ${flag}, or 0 for a free one`;
        return { ok: false, message };
      }
      // All are held until the last is chosen, so that no two are the same.
      ports.push((probe.address() as AddressInfo).port);
    }
    return { ok: true, ports };
  } finally {
    for (const probe of probes) if (probe.listening) probe.close();
  }
};
