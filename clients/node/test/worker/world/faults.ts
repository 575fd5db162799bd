/** Faults that are put into the worker on purpose, by patching it, to see that worlds find them. */

import type { TestContext } from "node:test";
import { Tables, TableView } from "../../../src/tables.js";
import { Rows } from "../../../src/worker/rows.js";
import { Runner } from "../../../src/worker/runner.js";
import { Whole } from "../../../src/worker/whole.js";
import { Work } from "../../../src/worker/work.js";

export type Fault = (t: TestContext) => void;

const { run } = Runner.prototype;
const { next } = Tables.prototype;
const { settle } = Work.prototype;

/** What a handler that runs does not hold back. */
function passing(type: string): Fault {
  return (t) => {
    t.mock.method(
      Tables.prototype,
      "next",
      function (this: Tables, busy: Parameters<typeof next>[0]) {
        return next.call(this, (event) => event.type !== type && busy?.(event) === true);
      },
    );
  };
}

export const FAULTS: Readonly<Record<string, Fault>> = {
  "nobody waits for the former handler": (t) => {
    t.mock.method(Runner.prototype, "run", function (this: Runner) {
      return run.call(this, undefined);
    });
  },
  "undo leaves everything": (t) => {
    t.mock.method(Work.prototype, "undo", () => {});
  },
  "a reset does not wait": passing("reset"),
  "rows do not wait": passing("restore"),
  "lost is not heard": (t) => {
    t.mock.method(Runner.prototype, "lost", () => {});
  },
  "changes are forgotten": (t) => {
    t.mock.method(Rows.prototype, "settle", () => 0);
  },
  "rows of commits on their way are not read": (t) => {
    t.mock.method(TableView.prototype, "find", function (this: TableView, key: string) {
      return this.store.get(key);
    });
  },
  "scans leave out what is not committed": (t) => {
    t.mock.method(TableView.prototype, "scan", function (this: TableView) {
      return this.store.items();
    });
  },
  "tables that are not whole are read": (t) => {
    t.mock.method(Whole.prototype, "of", () => true);
  },
  "outputs are forgotten now and then": (t) => {
    let n = 0;
    t.mock.method(Work.prototype, "settle", function (this: Work) {
      n += 1;
      if (n % 100 === 0) {
        this.undo();
      }
      return settle.call(this);
    });
  },
};
