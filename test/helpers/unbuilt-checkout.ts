/** A copy of the agent and its addon's sources, without the built addon; every package is the repository's own. */
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../", import.meta.url));
const SCOPE = "@lockgate";

/** What git knows or would take in: no build, and nothing that a pack puts there for a moment while another test makes one. */
const sourcesIn = (folders: readonly string[]): string[] =>
  execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ...folders], {
    cwd: root,
    encoding: "utf8",
  })
    .split("\0")
    .filter((path) => path !== "");

/** Makes it in a folder of its own, which the caller removes; returns the folder. */
export const makeUnbuiltCheckout = (): string => {
  const directory = mkdtempSync(join(tmpdir(), "lockgate-unbuilt-"));
  for (const path of sourcesIn(["gpu-agent", "native", "shared-types"])) {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    copyFileSync(join(root, path), join(directory, path));
  }
  const packages = join(directory, "node_modules");
  mkdirSync(join(packages, SCOPE), { recursive: true });
  for (const name of readdirSync(join(root, "node_modules"))) {
    if (name !== SCOPE) symlinkSync(join(root, "node_modules", name), join(packages, name));
  }
  for (const folder of ["native", "shared-types"]) symlinkSync(join(directory, folder), join(packages, SCOPE, folder));
  return directory;
};
