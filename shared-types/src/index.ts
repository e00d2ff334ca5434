/** What edge and agent say to each other; each file says which part. */
export * from "./api-key.ts";
export * from "./bearer-credential.ts";
export * from "./client-request-id.ts";
export * from "./deadline.ts";
export * from "./done-statistics.ts";
export * from "./error-codes.ts";
export * from "./heartbeat.ts";
export * from "./identifier.ts";
export * from "./limits.ts";
export * from "./model-name.ts";
export * from "./nonce-set.ts";
export * from "./signature.ts";
export * from "./signature-keys.ts";
export * from "./signed-headers.ts";
export * from "./trace-context.ts";
export * from "./usage-record.ts";
export * from "./verify-request.ts";
