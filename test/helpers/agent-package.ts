/** The agent as a person gets it who has no checkout: packed, and installed in an empty folder with nothing but the registry. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { z } from "zod";

const run = promisify(execFile);

const repositoryRoot = new URL("../../", import.meta.url);
const agentRoot = new URL("gpu-agent/", repositoryRoot);

const overridesSchema = z.object({ overrides: z.record(z.string(), z.record(z.string(), z.string())) });
const readySchema = z.object({
  url: z.url(),
  model: z.string(),
  pids: z.object({ agent: z.number(), replicas: z.array(z.number()) }),
});

/** What a run of the command came to. */
export interface Ended {
  readonly code: number | null;
  readonly stderr: string;
}

export interface ServingPackage {
  readonly url: string;
  readonly model: string;
  readonly pids: z.infer<typeof readySchema>["pids"];
  /** Of npx, which passes the agent's exit code on. */
  readonly exited: Promise<Ended>;
}

export interface InstalledPackage {
  /** The folder that it was installed into. */
  readonly directory: string;
  /** `npx gpu-agent <words>` there, to its end. */
  readonly command: (words: readonly string[]) => Promise<Ended>;
  /** `npx gpu-agent serve` there on a free port, until it is ready; it ends with the test process. */
  readonly serve: (localKey: string) => Promise<ServingPackage>;
  readonly remove: () => Promise<void>;
}

const npxAgent = (directory: string, words: readonly string[], env: NodeJS.ProcessEnv) => {
  const child = spawn("npx", ["--no-install", "gpu-agent", ...words], {
    cwd: directory,
    // What Node compiles of a package that goes away would stay in the tests' cache for ever.
    env: { ...env, NODE_DISABLE_COMPILE_CACHE: "1" },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const exited = once(child, "close").then(([code]): Ended => ({ code: code as number | null, stderr }));
  return { child, exited };
};

/**
 * Packs the agent and installs it. The GPU libraries, 700 MB that no test of ours needs, are left out as the repository itself leaves
 * them out: by overrides in the folder's own manifest.
 */
export const installAgentPackage = async (): Promise<InstalledPackage> => {
  const directory = await mkdtemp(join(tmpdir(), "lockgate-package-"));
  const remove = () => rm(directory, { recursive: true, force: true });
  try {
    await run("npm", ["pack", "--pack-destination", directory], { cwd: agentRoot });
    const [tarball] = (await readdir(directory)).filter((name) => name.endsWith(".tgz"));
    if (tarball === undefined) throw new Error("npm pack made no tarball");
    const { overrides } = overridesSchema.parse(
      JSON.parse(await readFile(new URL("package.json", repositoryRoot), "utf8")),
    );
    await writeFile(join(directory, "package.json"), JSON.stringify({ private: true, overrides }));
    await run("npm", ["install", "--prefer-offline", "--no-audit", "--no-fund", `./${tarball}`], { cwd: directory });
  } catch (error) {
    await remove();
    throw error;
  }
  return {
    directory,
    command: (words) => {
      const { child, exited } = npxAgent(directory, words, process.env);
      child.stdin.end();
      child.stdout.resume();
      return exited;
    },
    serve: async (localKey) => {
      const words = ["serve", "--port", "0", "--json", "--exit-with-stdin"];
      const { child, exited } = npxAgent(directory, words, { ...process.env, LOCKGATE_LOCAL_KEY: localKey });
      const died = exited.then(({ code, stderr }) => Promise.reject(new Error(`exit ${code}: ${stderr}`)));
      died.catch(() => undefined); // an end that was asked for
      const [line] = (await Promise.race([once(createInterface({ input: child.stdout }), "line"), died])) as [string];
      return { ...readySchema.parse(JSON.parse(line)), exited };
    },
    remove,
  };
};

/** Path of the repository, which nothing in an installed package may point to. */
export const repositoryPath = fileURLToPath(repositoryRoot);
