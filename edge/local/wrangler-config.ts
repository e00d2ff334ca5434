/**
 * Reads what the local edge needs from wrangler.toml, so that it runs with the flags and the bindings that are deployed.
 *
 * It takes the entry point, the compatibility settings, the objects, the databases and the environments and leaves the rest to wrangler.
 */
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { parse } from "smol-toml";
import { z } from "zod";

/** The repository's root, with a trailing slash. */
export const repositoryRoot: string = fileURLToPath(new URL("../../", import.meta.url));

/** What each environment has of its own. */
const environmentSchema = z.object({
  name: z.string(),
  durable_objects: z.object({ bindings: z.array(z.object({ name: z.string(), class_name: z.string() })) }),
  d1_databases: z.array(
    z.object({ binding: z.string(), database_name: z.string(), database_id: z.string(), migrations_dir: z.string() }),
  ),
  secrets: z.object({ required: z.array(z.string()) }),
});

const schema = environmentSchema.extend({
  main: z.string(),
  compatibility_date: z.string(),
  compatibility_flags: z.array(z.string()),
  env: z.record(z.string(), environmentSchema),
});

/** The settings of wrangler.toml that decide how the worker runs. */
export type WranglerConfig = z.infer<typeof schema>;

/** Parses wrangler.toml, or another file like it; throws if it is not there or lacks one of these settings. */
export const readWranglerConfig = async (path = `${repositoryRoot}wrangler.toml`): Promise<WranglerConfig> =>
  schema.parse(parse(await readFile(path, "utf8")));
