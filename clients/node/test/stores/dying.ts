/**
 * A process that writes to a store until it is killed, or kills itself at a given step of a commit.
 *
 *     dying.js commit|restore <root> <first>    for ever; says on stdout what must be found again
 *     dying.js step <root> <n>                  dies at the n-th step, or says that it lived
 */

import { writeSync } from "node:fs";
import { SqliteStores } from "../../src/stores/index.js";
import { commitOf, conformanceTask, restoreBatch } from "../../src/testing/store-conformance.js";
import { watchStatements } from "./scratch.js";

const [how = "", root = "", number = ""] = process.argv.slice(2);
const store = new SqliteStores(root).open(conformanceTask("s"), "t");

if (how === "step") {
  store.applyCommit(commitOf({ a: "1", b: "1", c: "1" }), "v1:1");
  let left = Number(number);
  const step = (): void => {
    left -= 1;
    if (left === 0) {
      process.kill(process.pid, "SIGKILL");
    }
  };
  watchStatements(step);
  store.applyCommit(commitOf({ a: "2", b: null, d: "2" }), "v1:2");
  step();
  writeSync(1, "lived\n");
} else {
  for (let n = Number(number); ; n++) {
    const rows = Array.from({ length: 200 }, (_, i) => [`${i}`, `${n}`] as const);
    if (how === "commit") {
      store.applyCommit(commitOf(Object.fromEntries(rows)), `v1:${n}`);
    } else {
      store.apply(restoreBatch(rows, `v1:${n}`));
      if (n % 3 === 0) {
        store.flush();
      }
    }
    writeSync(1, `${how === "commit" || n % 3 === 0 ? n : 0}\n`);
  }
}
