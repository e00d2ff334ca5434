/** What edge and agent say to each other; each file says which part. */
export * from "./bearer-credential.ts";
export * from "./done-statistics.ts";
export * from "./error-codes.ts";
export * from "./limits.ts";
export * from "./signature.ts";
export * from "./signature-keys.ts";
export * from "./signed-headers.ts";
