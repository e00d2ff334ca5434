/** What packing puts into the package's folder for its duration, and how it is taken away again. */
import { access, rename, rm } from "node:fs/promises";
import { packageRoot } from "./manifests.ts";

export const manifest = new URL("package.json", packageRoot);
/** The checkout's own manifest, while the packed one lies in its place. */
export const manifestOfCheckout = new URL(".package.json.checkout", packageRoot);
export const packedNative = new URL("native/", packageRoot);
/** Files of the repository's root that every package carries. */
export const NOTICES = ["LICENSE", "THIRD_PARTY.md"] as const;

/** Takes everything back but dist/. Idempotent. */
export const restoreCheckout = async (): Promise<void> => {
  await rm(packedNative, { recursive: true, force: true });
  for (const name of NOTICES) await rm(new URL(name, packageRoot), { force: true });
  const kept = await access(manifestOfCheckout).then(
    () => true,
    () => false,
  );
  if (kept) await rename(manifestOfCheckout, manifest);
};
