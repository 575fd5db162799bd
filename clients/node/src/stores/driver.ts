/** better-sqlite3, a peer that only those install who keep tables in files. */

import { createRequire } from "node:module";
import type Sqlite from "better-sqlite3";
import { UsageError } from "../errors.js";
import { messageOf } from "../thrown.js";

export type Driver = typeof Sqlite;
export type Database = Sqlite.Database;
export type Statement = Sqlite.Statement<unknown[], unknown>;

/** Load it, with its native part. Throws UsageError. */
export function load(): Driver {
  try {
    const driver = createRequire(import.meta.url)("better-sqlite3") as Driver;
    new driver(":memory:").close(); // which loads the native part
    return driver;
  } catch (error) {
    throw new UsageError(why(error), undefined, { cause: error });
  }
}

const INSTEAD = "or keep tables in memory: leave stateDir out, or use new MemoryStores()";

function why(error: unknown): string {
  if (error instanceof Error && "code" in error && error.code === "MODULE_NOT_FOUND") {
    return `SqliteStores needs the package better-sqlite3; run npm install better-sqlite3, ${INSTEAD}`;
  }
  const [reason] = messageOf(error).split("\n");
  return `the package better-sqlite3 cannot be loaded (${reason}); run npm rebuild better-sqlite3, ${INSTEAD}`;
}
