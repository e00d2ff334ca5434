/**
 * What a running agent reads anew at each use, and a SIGHUP replaces: its configuration, its log level and its keys. Holds no socket and no
 * process; whoever uses a value reads it here each time and keeps no copy.
 *
 * Nonces outlive a change of keys: else a recorded request could be sent once more after it.
 */

import { createNonceSet, NONCE_RETENTION_MS } from "@lockgate/shared-types";
import { createLocalKeyCheck, type LocalKeyCheck } from "./auth/local-key.ts";
import { createRequestVerifier, type RequestVerifier } from "./auth/verify-request.ts";
import type { ServeConfig, ServeConfigResult } from "./config/load-serve-config.ts";
import { createLog, type Log } from "./log.ts";
import { reloadConfig } from "./reload.ts";

interface Made {
  readonly config: ServeConfig;
  readonly verifier: RequestVerifier;
  readonly checkLocalKey: LocalKeyCheck;
}

export class LiveConfig {
  /** Always writes with the level that holds now. */
  readonly log: Log;
  readonly #make: (config: ServeConfig) => Made;
  #made: Made;

  /** `startedAtMs` is Unix time, ms. */
  constructor(config: ServeConfig, startedAtMs: number, writeLog: (line: string) => void) {
    const nonces = createNonceSet(NONCE_RETENTION_MS);
    this.#make = (fresh) => ({
      config: fresh,
      verifier: createRequestVerifier({ keys: fresh.signingKeys, now: Date.now, startedAtMs, nonces }),
      checkLocalKey: createLocalKeyCheck(fresh.localKey),
    });
    this.#made = this.#make(config);
    this.log = createLog(() => this.config.logLevel, writeLog);
  }

  get config(): ServeConfig {
    return this.#made.config;
  }

  get verifier(): RequestVerifier {
    return this.#made.verifier;
  }

  get checkLocalKey(): LocalKeyCheck {
    return this.#made.checkLocalKey;
  }

  /** Reads the configuration again; a broken one changes nothing. The log tells what came of it. */
  reload(readAgain: () => ServeConfigResult): void {
    this.#made = this.#make(reloadConfig(this.config, readAgain, this.log));
  }
}
