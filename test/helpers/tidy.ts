/**
 * The house rules that a machine can check, as one function over the repository's files: size, headers, imports, left-over marks, paths
 * of somebody's machine. The tidy test feeds it the real files, and bad samples to see it bite.
 *
 * What it looks for is spelled in pieces here, so that this file passes its own check. It reads text, not syntax: an import that is
 * built at run time escapes it.
 */
import { posix } from "node:path";

/** A file by its path from the repository's root. */
export interface RepoFile {
  readonly path: string;
  readonly text: string;
}

/** Most lines of a source file. */
export const MAX_LINES = 400;

interface Import {
  readonly specifier: string;
  /** Erased when the types are: it loads nothing. */
  readonly typeOnly: boolean;
  /** The file or folder of ours that it names, from the root; undefined for a package or a Node module. */
  readonly target: string | undefined;
}

type Rule = (file: RepoFile, repo: Repo) => string[];

interface Repo {
  readonly files: ReadonlyMap<string, RepoFile>;
  importsOf(file: RepoFile): readonly Import[];
}

const isScript = (path: string): boolean => /\.(ts|mts|js|mjs)$/.test(path);
const isSource = (path: string): boolean => isScript(path) || /\.(cpp|h|py)$/.test(path);
const isTest = (path: string): boolean => path.endsWith(".test.ts");
const isUnder = (path: string, ...folders: readonly string[]): boolean => folders.some((of) => path.startsWith(of));

const withoutComments = (text: string): string => text.replace(/\/\*[\s\S]*?\*\/|(?<![:"'`\w])\/\/.*$/gm, "");

/** Packages of ours, with the folder where each lives. */
const ownPackages = [
  ["@lockgate/shared-types", "shared-types/"],
  ["@lockgate/native", "native/"],
  ["@lockgate/gpu-agent", "gpu-agent/"],
  ["@lockgate/edge", "edge/"],
] as const;

const targetOf = (from: string, specifier: string): string | undefined => {
  if (specifier.startsWith(".")) return posix.join(posix.dirname(from), specifier);
  return ownPackages.find(([name]) => specifier === name || specifier.startsWith(`${name}/`))?.[1];
};

const statement = /^(?:import|export)\s+(type\s)?[^;'"]*?\bfrom\s*["']([^"']+)["']/gm;
const bare = /^import\s*["']([^"']+)["']/gm;
const dynamic = /\bimport\(\s*["']([^"']+)["']\s*\)/g;

const readImports = ({ path, text }: RepoFile): Import[] => {
  const code = withoutComments(text);
  const make = (specifier: string, typeOnly: boolean): Import => ({
    specifier,
    typeOnly,
    target: targetOf(path, specifier),
  });
  return [
    ...[...code.matchAll(statement)].map(([, type, specifier = ""]) => make(specifier, type !== undefined)),
    ...[...code.matchAll(bare), ...code.matchAll(dynamic)].map(([, specifier = ""]) => make(specifier, false)),
  ];
};

const hasHeader: Rule = ({ path, text }) => {
  if (!isSource(path) || isTest(path)) return [];
  const body = text.replace(/^#!.*\n/, "");
  const own = `#include "${posix.basename(path).replace(/\.cpp$/, ".h")}"`;
  const begun = path.endsWith(".py") ? /^("""|#)/.test(body) : /^(\/\*|\/\/)/.test(body);
  // A .cpp is introduced by its .h.
  return begun || (path.endsWith(".cpp") && body.startsWith(own)) ? [] : ["does not begin with a header comment"];
};

const isShort: Rule = ({ path, text }) => {
  const lines = text.split("\n").length - 1;
  return isSource(path) && lines > MAX_LINES ? [`has ${lines} lines, more than ${MAX_LINES}`] : [];
};

const leftOver = new RegExp(`\\b(${["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"].join("|")})\\b`);
const heldBack = new RegExp(
  `\\btest(\\.\\w+)*\\.(${["sk" + "ip", "on" + "ly", "to" + "do", "fail" + "ing"].join("|")})\\b`,
);

const isFinished: Rule = ({ path, text }) => {
  if (!isSource(path) && !path.endsWith(".md")) return [];
  return linesWith(text, leftOver, "a left-over mark").concat(linesWith(text, heldBack, "a test that is held back"));
};

const machinePath = new RegExp(`(?<![\\w.])/(${["wo" + "rk/", "tmp/" + "exp", "ho" + "me/", "ro" + "ot/"].join("|")})`);
const registryHost = new RegExp(`registry\\.(${["npm" + "js", "yarn" + "pkg"].join("|")})|\\bpypi\\.${"org"}`);

const isFromNowhere: Rule = ({ path, text }) => {
  const lines = path === "package-lock.json" ? text.replace(/^.*"integrity":.*$/gm, "") : text;
  const found = [
    ...linesWith(lines, machinePath, "a path of somebody's machine"),
    ...linesWith(lines, registryHost, "the host of a package registry"),
  ];
  return path === "package-lock.json"
    ? [...found, ...linesWith(lines, /"resolved": "http/, "an address to resolve")]
    : found;
};

const linesWith = (text: string, what: RegExp, name: string): string[] =>
  text.split("\n").flatMap((line, at) => (what.test(line) ? [`line ${at + 1} has ${name}`] : []));

const namesFiles: Rule = (file, { files, importsOf }) =>
  importsOf(file)
    .filter(({ specifier, target }) => specifier.startsWith(".") && !files.has(target ?? ""))
    .map(({ specifier }) => `imports ${specifier}, which is no file: the extension belongs to the name`);

/** Where our own code must not reach: from a folder, to folders or modules. */
interface Border {
  readonly from: readonly string[];
  readonly except?: readonly string[];
  readonly to: readonly string[];
  readonly modules?: RegExp;
  /** Types alone may cross. */
  readonly typesPass?: true;
}

const agent = "gpu-agent/src/";
export const borders: readonly Border[] = [
  { from: ["shared-types/"], to: ["edge/", "gpu-agent/", "native/", "test/"] },
  { from: ["edge/"], to: ["gpu-agent/", "native/", "test/"] },
  { from: ["edge/src/"], to: ["edge/local/"], modules: /^node:/ },
  { from: ["gpu-agent/"], to: ["edge/", "test/"] },
  { from: ["native/"], to: ["edge/", "gpu-agent/", "shared-types/", "test/"] },
  // The replica host decodes, the tokenizer tokenises; nothing else touches the native module.
  { from: ["gpu-agent/"], except: [`${agent}host/`, `${agent}models/`], to: ["native/"], typesPass: true },
  {
    from: [`${agent}replicas/`, `${agent}prompt/`, `${agent}usage/`],
    to: [`${agent}http/`],
    modules: /^(node:https?|hono|@hono)($|\/)/,
  },
  { from: [agent], except: [`${agent}ownership/`], to: [`${agent}ownership/subjects/`] },
  // HTTP and the CLI alone; what both services say to each other is part of HTTP.
  { from: ["test/integration/"], to: [agent, "edge/src/", "native/"] },
];

const staysInside: Rule = (file, { importsOf }) =>
  borders
    .filter(({ from, except = [] }) => isUnder(file.path, ...from) && !isUnder(file.path, ...except))
    .flatMap(({ to, modules, typesPass }) =>
      importsOf(file)
        .filter(({ typeOnly }) => !(typesPass && typeOnly))
        .filter(({ specifier, target }) => (target === undefined ? modules?.test(specifier) : isUnder(target, ...to)))
        .map(({ specifier }) => `must not import ${specifier}`),
    );

const pureModules = /^node:(assert|buffer|crypto|path|string_decoder|url|util)($|\/)/;
const impureWords =
  /\b(process\.|setTimeout\(|setInterval\(|setImmediate\(|Date\.now\b|new Date\(\)|performance\.now\b|Math\.random\b|randomUUID\b|randomBytes\b|fetch\()/;

const stringLiteral = /"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`/g;

const saysPure = ({ text }: RepoFile): boolean => /^\/\*\*(?:(?!\*\/)[\s\S])*\bpure\b/i.test(text);

/** Why a file is not pure: itself, or through what it loads. Undefined where it is. */
const impurity = (file: RepoFile, repo: Repo, seen: Set<string>): string | undefined => {
  if (seen.has(file.path)) return undefined;
  seen.add(file.path);
  const [word] = impureWords.exec(withoutComments(file.text).replace(stringLiteral, '""')) ?? [];
  if (word !== undefined) return `${file.path} uses ${word}`;
  for (const { specifier, typeOnly, target } of repo.importsOf(file)) {
    if (typeOnly) continue;
    if (specifier.startsWith("node:") && !pureModules.test(specifier)) return `${file.path} imports ${specifier}`;
    if (target?.startsWith("native/")) return `${file.path} imports ${specifier}`;
    const next = repo.files.get(target ?? "");
    const reason = next === undefined ? undefined : impurity(next, repo, seen);
    if (reason !== undefined) return reason;
  }
  return undefined;
};

const isAsPureAsItSays: Rule = (file, repo) => {
  if (!isScript(file.path) || isUnder(file.path, "test/") || !saysPure(file)) return [];
  const reason = impurity(file, repo, new Set());
  return reason === undefined ? [] : [`says that it is pure, but ${reason}`];
};

const foreignWord = /\b(json|https?|sse|tenants?)\b/i;
const knowsItsPlace: Rule = ({ path, text }) =>
  isUnder(path, "native/src/") ? linesWith(text, foreignWord, "a word that the native module should not know") : [];

const rules: readonly Rule[] = [
  hasHeader,
  isShort,
  isFinished,
  isFromNowhere,
  namesFiles,
  staysInside,
  isAsPureAsItSays,
  knowsItsPlace,
];

/** Every breach of the rules as `path: what`, sorted; empty for a tidy repository. Binary files are to be left out. */
export const findUntidy = (files: readonly RepoFile[]): string[] => {
  const imports = new Map<string, readonly Import[]>();
  const repo: Repo = {
    files: new Map(files.map((file) => [file.path, file])),
    importsOf: (file) => {
      const known = imports.get(file.path) ?? (isScript(file.path) ? readImports(file) : []);
      imports.set(file.path, known);
      return known;
    },
  };
  return files
    .flatMap((file) => rules.flatMap((rule) => rule(file, repo)).map((what) => `${file.path}: ${what}`))
    .sort();
};
