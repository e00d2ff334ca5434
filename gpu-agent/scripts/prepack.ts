/**
 * Before `npm pack`: makes the package whole. Bundles the agent, copies the addon's sources and the notices into the package, and puts the
 * packed manifest in the place of the checkout's, which postpack.ts brings back.
 */
import { copyFile, cp, readFile, rename, writeFile } from "node:fs/promises";
import { z } from "zod";
import { bundleAgent } from "./bundle.ts";
import { packageRoot, packedManifest, readManifest } from "./manifests.ts";
import { manifest, manifestOfCheckout, NOTICES, packedNative, restoreCheckout } from "./pack-places.ts";

const nativeRoot = new URL("../native/", packageRoot);
const inlinedRoot = new URL("../shared-types/", packageRoot);

const native = await readManifest(new URL("package.json", nativeRoot));

/** The folders and files that the native workspace itself names; its manifest goes along, for the build reads it. */
const copyNative = async (): Promise<void> => {
  const files = z.array(z.string()).parse(native.files);
  for (const name of [...files, "package.json"]) {
    await cp(new URL(name, nativeRoot), new URL(name, packedNative), { recursive: true });
  }
};

await restoreCheckout(); // in case a pack was cut short
const imported = await bundleAgent();
await copyNative();
for (const name of NOTICES) await copyFile(new URL(`../${name}`, packageRoot), new URL(name, packageRoot));

const packed = packedManifest(
  await readManifest(manifest),
  native,
  await readManifest(new URL("package.json", inlinedRoot)),
  imported,
);
await writeFile(manifestOfCheckout, await readFile(manifest));
// Renamed into place: who reads the manifest meanwhile gets one or the other, whole.
const fresh = new URL(".package.json.fresh", packageRoot);
await writeFile(fresh, `${JSON.stringify(packed, null, 2)}\n`);
await rename(fresh, manifest);
