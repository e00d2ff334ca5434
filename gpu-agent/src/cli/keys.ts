/**
 * `gpu-agent keys`: makes and rotates the keys that an edge signs its requests with. A secret goes into a file that only its owner may
 * read, and to a terminal when asked with --print; never into a log, an error or a command line.
 */
import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Command } from "commander";
import { exitCodes } from "../config/exit-codes.ts";
import { readInput } from "../config/secrets.ts";
import { text, toggle } from "../config/serve-options.ts";
import { addAction, jsonOption } from "./command-options.ts";
import { type CliContext, failWith } from "./context.ts";
import { createdKeyFile, keyIdsOf, type NewKey, rotatedKeyFile } from "./key-file.ts";

const SECRET_BYTES = 32;
const ID_BYTES = 6;
/** Owner alone: read and write. */
const KEY_FILE_MODE = 0o600;

const file = text<string>({
  name: "file",
  argument: "FILE",
  help: "the file of keys",
  fallback: "signing-keys.json",
});
const print = toggle({ name: "print", help: "print the keys too, secrets included", fallback: false });

const EXAMPLES = `
Examples:
  gpu-agent keys create --file signing-keys.json
  gpu-agent keys rotate --file signing-keys.json
  gpu-agent keys list --file signing-keys.json

The agent reads the file as [auth] signing_keys_file, the edge has the same text as its secret AGENT_SIGNING_KEYS. The first key is the
active one. To rotate without a refused request: rotate, give the new file to the agent, then to the edge with the new key's id.`;

const newKey = (): NewKey => ({
  id: `k-${randomBytes(ID_BYTES).toString("hex")}`,
  secret: randomBytes(SECRET_BYTES).toString("base64url"),
});

/** Writes through to the disk. The mode is set as the file is made, so there is no moment at which others may read it. */
const writeNewFile = (path: string, content: string): void => {
  const descriptor = openSync(path, "wx", KEY_FILE_MODE);
  try {
    writeSync(descriptor, content);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
};

/** Whoever reads meanwhile gets the old file or the new one, whole. */
const replaceFile = (path: string, content: string): void => {
  const fresh = join(dirname(path), `.${randomBytes(ID_BYTES).toString("hex")}.fresh`);
  try {
    writeNewFile(fresh, content);
    renameSync(fresh, path);
  } catch (error) {
    rmSync(fresh, { force: true });
    throw error;
  }
};

const readKeys = (path: string) => readInput((from) => readFileSync(from, "utf8"), path, "the file of keys");

const create = (context: CliContext, path: string, alsoPrint: boolean): number => {
  const key = newKey();
  const content = createdKeyFile(key);
  try {
    writeNewFile(path, content);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === "EEXIST"
      ? failWith(
          context,
          exitCodes.usage,
          `${path} is there already; add a key with: gpu-agent keys rotate --file ${path}`,
        )
      : failWith(context, exitCodes.osError, `${path} cannot be written (${code})`);
  }
  return report(context, `created key ${key.id} in ${path}`, content, alsoPrint);
};

const rotate = (context: CliContext, path: string, alsoPrint: boolean): number => {
  const before = readKeys(path);
  if (!before.ok) return failWith(context, before.exitCode, before.message);
  const key = newKey();
  const rotated = rotatedKeyFile(before.text, key);
  if (!rotated.ok) return failWith(context, exitCodes.dataError, `${path} holds no signing keys (${rotated.hint})`);
  try {
    replaceFile(path, rotated.text);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return failWith(context, exitCodes.osError, `${path} cannot be written (${code}); it is as it was`);
  }
  const also = [
    ...rotated.kept.map((id) => `kept ${id}`),
    ...rotated.dropped.map((id) => `dropped ${id}, whose signatures are refused from now on`),
  ];
  return report(context, [`created key ${key.id} in ${path}`, ...also].join("; "), rotated.text, alsoPrint);
};

/** With --print standard output has the keys alone, fit for a pipe. */
const report = (context: CliContext, what: string, content: string, alsoPrint: boolean): number => {
  (alsoPrint ? context.writeError : context.writeOut)(`${what}\n`);
  if (alsoPrint) context.writeOut(content);
  return exitCodes.ok;
};

const list = (context: CliContext, path: string, json: boolean): number => {
  const keys = readKeys(path);
  if (!keys.ok) return failWith(context, keys.exitCode, keys.message);
  const parsed = keyIdsOf(keys.text);
  if (!parsed.ok) return failWith(context, exitCodes.dataError, `${path} holds no signing keys (${parsed.hint})`);
  const lines = parsed.ids.map((id, at) => `${id}${at === 0 ? "  active" : ""}\n`);
  context.writeOut(json ? `${JSON.stringify(parsed.ids)}\n` : lines.join(""));
  return exitCodes.ok;
};

/** Adds `keys create`, `keys rotate` and `keys list`. */
export const addKeysCommand = (program: Command, context: CliContext): void => {
  const keys = program
    .command("keys")
    .description("Create and rotate the keys that an edge signs with.")
    .addHelpText("after", EXAMPLES);

  for (const [name, description, run] of [
    ["create", "A new file with one key, mode 0600.", create],
    ["rotate", "A new active key; the one that was active is kept, older ones are dropped.", rotate],
  ] as const) {
    const command = keys.command(name).description(description);
    addAction(command, `keys-${name}`, { file, print }, context, (values) => run(context, values.file, values.print));
  }
  const listing = keys.command("list").description("The ids in a file, the active one first; no secrets.");
  addAction(listing, "keys-list", { file, json: jsonOption }, context, (values) =>
    list(context, values.file, values.json),
  );
};
