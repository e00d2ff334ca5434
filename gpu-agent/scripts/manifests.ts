/** The package.json files that a packed agent is made from, and the one that it carries. */
import { readFile } from "node:fs/promises";
import { z } from "zod";

export const packageRoot = new URL("../", import.meta.url);

/** Oldest Node that runs the bundle. Not in the repository's own manifest: there the scripts bring their Node, and npm would warn for nothing. */
const NODE_RANGE = ">=22.19";

/** Fields that mean something in a checkout only, and the one that is made anew. */
const CHECKOUT_FIELDS: readonly string[] = ["dependencies", "devDependencies", "scripts"];

const manifestSchema = z.looseObject({ dependencies: z.record(z.string(), z.string()).default({}) });
type Manifest = z.infer<typeof manifestSchema>;

/** The manifest at this URL. Throws where it does not parse. */
export const readManifest = async (url: URL): Promise<Manifest> =>
  manifestSchema.parse(JSON.parse(await readFile(url, "utf8")));

/**
 * The manifest of a packed agent: with the packages that its bundle imports, in the versions of whichever workspace names them, and those
 * that its addon is built with. Throws where no workspace names a package that is needed.
 */
export const packedManifest = (
  agent: Manifest,
  native: Manifest,
  inlined: Manifest,
  imported: ReadonlySet<string>,
): Record<string, unknown> => {
  const versions = { ...inlined.dependencies, ...native.dependencies, ...agent.dependencies };
  const needed = [...new Set([...imported, ...Object.keys(native.dependencies)])].toSorted();
  const dependencies = needed.map((name): [string, string] => {
    const version = versions[name];
    if (version === undefined) throw new Error(`the bundle imports ${name}, which no workspace depends on`);
    return [name, version];
  });
  const kept = Object.entries(agent).filter(([field]) => !CHECKOUT_FIELDS.includes(field));
  return {
    ...Object.fromEntries(kept),
    engines: { node: NODE_RANGE },
    dependencies: Object.fromEntries(dependencies),
  };
};
