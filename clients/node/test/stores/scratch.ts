/** What tests of stores share: a directory of their own, and eyes on the statements of SQLite. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import Database from "better-sqlite3";

/** A directory that goes with the test. */
export function directory(t: TestContext): string {
  const made = mkdtempSync(join(tmpdir(), "pillion-"));
  t.after(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

type Seen = (sql: string, values: readonly unknown[], when: "before" | "after") => void;

/** Call seen around each statement that changes something, until the function given back. */
export function watchStatements(seen: Seen): () => void {
  const db = new Database(":memory:");
  const shared = Object.getPrototypeOf(db.prepare("SELECT 1")) as Database.Statement;
  db.close();
  const { run } = shared;
  shared.run = function (this: Database.Statement, ...values: unknown[]) {
    seen(this.source, values, "before");
    const done = run.apply(this, values);
    seen(this.source, values, "after");
    return done;
  };
  return () => {
    shared.run = run;
  };
}
