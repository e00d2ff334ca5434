/**
 * A folder for one run that nobody but its owner may enter: the admin credential, and the agents' spools. A run that is killed outright
 * leaves it behind, with a credential that opens nothing any more.
 */
import { rmSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface PrivateFolder {
  readonly path: string;
  /** Writes the file that `npm run admin -- --credential` takes; returns its path. */
  writeCredential(url: string, token: string): Promise<string>;
  remove(): Promise<void>;
  /** For an end that does not wait. */
  removeNow(): void;
}

export const makePrivateFolder = async (): Promise<PrivateFolder> => {
  // mkdtemp makes it with mode 0700.
  const path = await mkdtemp(join(tmpdir(), "lockgate-"));
  return {
    path,
    async writeCredential(url, token) {
      const file = join(path, "admin.json");
      await writeFile(file, `${JSON.stringify({ url, token })}\n`, { mode: 0o600, flag: "wx" });
      return file;
    },
    remove: () => rm(path, { recursive: true, force: true }),
    removeNow: () => rmSync(path, { recursive: true, force: true }),
  };
};
