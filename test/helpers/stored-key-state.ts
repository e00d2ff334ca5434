/** A key's state together with what is written of it, so that a test can let it start again from there. */
import { KeyState, type StoredRequest } from "../../edge/src/admit/key-state.ts";
import type { WindowSnapshot } from "../../edge/src/admit/sliding-window.ts";

export class StoredKeyState {
  state = new KeyState();
  readonly #requests = new Map<string, StoredRequest>();
  #windows: { readonly requests: WindowSnapshot; readonly tokens: WindowSnapshot } = { requests: [], tokens: [] };

  /** Writes what has changed and begins anew from all that was ever written. */
  restart(): void {
    const { windows, changed, closed } = this.state.changes();
    this.#windows = windows ?? this.#windows;
    for (const request of changed) this.#requests.set(request.requestId, request);
    for (const requestId of closed) this.#requests.delete(requestId);
    this.state = new KeyState({
      requestWindow: this.#windows.requests,
      tokenWindow: this.#windows.tokens,
      requests: [...this.#requests.values()],
      monthTokens: this.state.storedMonths(),
    });
  }
}
