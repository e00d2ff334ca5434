/**
 * Whether a request may come in, and as whom. The route asks an Admit and knows nothing of where keys are kept.
 *
 * Every refusal is the same response outside; `cause` tells them apart in the log.
 */
import type { CredentialFault } from "@lockgate/shared-types";

export type Admission =
  | {
      readonly kind: "admitted";
      /** The API key's id, for logs and usage. */
      readonly keyId: string;
      /** Hex; keeps one tenant's prefix cache apart from another's. */
      readonly tenantSalt: string;
    }
  | {
      readonly kind: "refused";
      readonly code: "invalid_api_key";
      readonly cause: CredentialFault | "unknown_key";
    };

export type Admit = (headers: Headers) => Promise<Admission>;
