/** A copy of the agent and its addon's sources, without the built addon; every package is the repository's own. */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../", import.meta.url));
const SCOPE = "@lockgate";

/** Makes it in a folder of its own, which the caller removes; returns the folder. */
export const makeUnbuiltCheckout = (): string => {
  const directory = mkdtempSync(join(tmpdir(), "lockgate-unbuilt-"));
  for (const folder of ["gpu-agent", "native", "shared-types"]) {
    cpSync(join(root, folder), join(directory, folder), {
      recursive: true,
      filter: (path) => !/[\\/](build|\.llama|dist|node_modules)$/.test(path),
    });
  }
  const packages = join(directory, "node_modules");
  mkdirSync(join(packages, SCOPE), { recursive: true });
  for (const name of readdirSync(join(root, "node_modules"))) {
    if (name !== SCOPE) symlinkSync(join(root, "node_modules", name), join(packages, name));
  }
  for (const folder of ["native", "shared-types"]) symlinkSync(join(directory, folder), join(packages, SCOPE, folder));
  return directory;
};
