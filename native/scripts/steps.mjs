/** Runs the build's steps: a line for a person when one begins, the seconds when it ends, its output only when it fails. */
import { spawn } from "node:child_process";
import { BuildFailure, EXIT_FAILED } from "./build-failure.mjs";

/** Output kept of a step: a compiler's first error matters, and its last lines; the middle may go. */
const MAX_HEAD_BYTES = 64 * 1024;
const MAX_TAIL_BYTES = 64 * 1024;

/** Variables through which a caller's own git or cmake settings would reach into this build. */
const FOREIGN = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "DESTDIR"];

export function log(line) {
  process.stderr.write(`${line}\n`);
}

/**
 * @param {string} title what it does, for a person
 * @param {string} command
 * @param {string[]} args
 * @param {{ cwd?: string, env?: Record<string, string> }} [options]
 * @returns {Promise<void>} rejects with a BuildFailure (exit code 70) that holds the output
 */
export async function runStep(title, command, args, { cwd, env = {} } = {}) {
  const started = performance.now();
  log(`${title} ...`);
  const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !FOREIGN.includes(name)));
  const child = spawn(command, args, { cwd, env: { ...environment, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  const output = new BoundedOutput();
  child.stdout.on("data", (chunk) => output.add(chunk));
  child.stderr.on("data", (chunk) => output.add(chunk));
  const outcome = await new Promise((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("close", (code, signal) => resolve(code === 0 ? null : `ended with ${signal ?? `exit code ${code}`}`));
  });
  if (outcome !== null) {
    throw new BuildFailure(EXIT_FAILED, `${output.text()}\n${title} failed: ${command} ${outcome}`);
  }
  log(`  done in ${((performance.now() - started) / 1000).toFixed(1)} s`);
}

class BoundedOutput {
  #head = "";
  #tail = "";

  add(chunk) {
    const text = chunk.toString();
    if (this.#head.length < MAX_HEAD_BYTES) {
      this.#head += text;
    } else {
      this.#tail = (this.#tail + text).slice(-MAX_TAIL_BYTES);
    }
  }

  text() {
    return this.#tail === "" ? this.#head : `${this.#head}\n[...]\n${this.#tail}`;
  }
}
