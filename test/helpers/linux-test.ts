/** A test of what only Linux has. Elsewhere it says in its log that it was not run, and why. */
import test, { type ExecutionContext } from "ava";

export const linuxTest = (title: string, needs: string, body: (t: ExecutionContext) => void | Promise<void>): void =>
  test(title, (t) => {
    if (process.platform === "linux") return body(t);
    t.log(`not run on ${process.platform}: it needs ${needs}`);
    t.pass();
  });
