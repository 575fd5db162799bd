/**
 * One SQLite file: rows, and beside them whose they are and the checkpoint.
 *
 * It is locked for as long as it is open: one owner at a time, and no index of the log in shared
 * memory. One that is damaged, or holds something else, is set aside at once, whenever that shows.
 *
 * INVARIANT: rows and checkpoint change in one transaction.
 */

import { StoreBusy, StoreCorrupt, StoreError } from "../errors.js";
import { messageOf } from "../thrown.js";
import type { KeyText, Writes } from "./base.js";
import { type Database, type Driver, load, type Statement } from "./driver.js";
import { makeParent, type Rows, setAside } from "./files.js";

const APPLICATION_ID = 0x504c4e31; // PLN1
const FORMAT = 1;
const PAGE_SIZE = 8192; // bytes; only of files that are made now
const SET_ROWS = 32; // of one statement, which takes half the time of as many
const LOG_BYTES = 32 << 20; // of the write-ahead log, before it is copied into the file

const PRAGMAS = [
  `page_size = ${PAGE_SIZE}`,
  "journal_mode = WAL",
  "synchronous = NORMAL",
  `wal_autocheckpoint = ${LOG_BYTES / PAGE_SIZE}`,
  "cache_size = -16000",
  // Reads of a table larger than the cache, without a copy and a call each. As much as SQLite
  // allows; it takes address space, and memory only as the system has it to spare.
  "mmap_size = 2147418112",
];
const SCHEMA = `
  CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
  CREATE TABLE rows (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID;
  PRAGMA application_id = ${APPLICATION_ID};
  PRAGMA user_version = ${FORMAT};
`;

export interface FileAccess {
  /** How long to wait for another process to let go. */
  readonly withinMs: number;
  readonly notice: (sentence: string) => void;
}

/** An open file. Throws StoreError, or StoreBusy when another process has it. */
export class SqliteFile {
  readonly path: string;
  readonly #notice: (sentence: string) => void;
  #db: Database | null = null;
  #prepared: Prepared | null = null;
  /** What was there when it was opened. */
  readonly checkpoint: string | null;

  constructor(path: string, identity: string, { withinMs, notice }: FileAccess) {
    this.path = path;
    this.#notice = notice;
    const driver = load();
    makeParent(path);
    try {
      this.checkpoint = this.#open(driver, identity, withinMs);
    } catch (error) {
      if (!(error instanceof StoreCorrupt)) {
        throw error;
      }
      this.checkpoint = this.#open(driver, identity, withinMs); // in the place of what was set aside
    }
  }

  get open(): boolean {
    return this.#db !== null;
  }

  get(key: KeyText): Buffer | null {
    const { get } = this.#opened();
    try {
      return (get.get(Buffer.from(key, "latin1")) as Buffer | undefined) ?? null;
    } catch (error) {
      throw this.#failed(error);
    }
  }

  /** Up to limit rows with start <= key < stop, in order; null: to the end. */
  page(start: KeyText, stop: KeyText | null, limit: number): Rows {
    const { from, between } = this.#opened();
    return this.#guard(() => {
      const at = Buffer.from(start, "latin1");
      const found =
        stop === null ? from.all(at, limit) : between.all(at, Buffer.from(stop, "latin1"), limit);
      return (found as [Buffer, Buffer][]).map(([key, value]) => [key.toString("latin1"), value]);
    });
  }

  count(): number {
    const { count } = this.#opened();
    return this.#guard(() => count.get() as number);
  }

  /** Write rows and checkpoint. */
  write(rows: Writes, checkpoint: string | null): void {
    // Sorted rows go through the tree once, page after page.
    const keys = [...rows.keys()].sort();
    this.#transaction(({ set, setMany, remove, meta }) => {
      let sets: Buffer[] = [];
      for (const key of keys) {
        const value = rows.get(key) ?? null;
        const bytes = Buffer.from(key, "latin1");
        if (value === null) {
          remove.run(bytes);
        } else if (sets.push(bytes, value) === 2 * SET_ROWS) {
          setMany.run(sets);
          sets = [];
        }
      }
      for (let i = 0; i < sets.length; i += 2) {
        set.run(sets[i], sets[i + 1]);
      }
      meta.run("checkpoint", checkpoint);
    });
  }

  /** Remove all rows and the checkpoint. */
  wipe(): void {
    this.#transaction(({ wipe, meta }) => {
      wipe.run();
      meta.run("checkpoint", null);
    });
  }

  /** Let go. May be called again. */
  close(): void {
    const db = this.#db;
    this.#db = null;
    this.#prepared = null;
    try {
      db?.close();
    } catch {
      // What was written is in the log, and the next owner finds it there.
    }
  }

  // -- opening

  /** Open or make it, and say the checkpoint. StoreCorrupt: it was set aside. */
  #open(driver: Driver, identity: string, withinMs: number): string | null {
    try {
      this.#db = new driver(this.path, { timeout: withinMs });
    } catch (error) {
      const text = `the store ${this.path} cannot be opened: ${messageOf(error)}`;
      throw new StoreError(text, undefined, { cause: error });
    }
    const db = this.#db;
    try {
      return this.#guard(() => this.#prepare(db, identity));
    } catch (error) {
      this.close();
      throw error;
    }
  }

  #prepare(db: Database, identity: string): string | null {
    db.pragma("locking_mode = EXCLUSIVE");
    const known = db.pragma("application_id", { simple: true }) === APPLICATION_ID;
    const tables = db.prepare("SELECT count(*) FROM sqlite_schema").pluck().get();
    if (!known && tables !== 0) {
      throw this.#setAside("is not a table of this client");
    }
    for (const pragma of PRAGMAS) {
      db.pragma(pragma);
    }
    const opened = `${new Date().toISOString().slice(0, 19)}Z`;
    db.transaction(() => {
      if (!known) {
        db.exec(SCHEMA);
        db.prepare(SET_META).run("identity", identity);
      }
      db.prepare(SET_META).run("opened", opened); // a write, so that the lock is taken now
    }).immediate();
    if (db.pragma("user_version", { simple: true }) !== FORMAT) {
      throw this.#setAside("has a format that this version does not read");
    }
    const meta = new Map(db.prepare("SELECT * FROM meta").raw().all() as [string, string | null][]);
    const found = meta.get("identity");
    if (found !== identity) {
      throw this.#setAside(
        `holds '${found}', not '${identity}' (each group needs its own directory)`,
      );
    }
    this.#prepared = prepare(db);
    return meta.get("checkpoint") ?? null;
  }

  #setAside(why: string): StoreCorrupt {
    this.close();
    return setAside(this.path, why, ["-wal", "-shm"], this.#notice);
  }

  // -- using

  #opened(): Prepared {
    if (this.#prepared === null) {
      throw new StoreError(`the store ${this.path} is closed`);
    }
    return this.#prepared;
  }

  #transaction(what: (prepared: Prepared) => void): void {
    const prepared = this.#opened();
    this.#guard(() => {
      prepared.begin.run();
      try {
        what(prepared);
        prepared.commit.run();
      } catch (error) {
        if (this.#db?.inTransaction) {
          prepared.rollback.run();
        }
        throw error;
      }
    });
  }

  #guard<T>(what: () => T): T {
    try {
      return what();
    } catch (error) {
      throw this.#failed(error);
    }
  }

  /** What an error of SQLite means. Others are left alone. */
  #failed(error: unknown): unknown {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    if (!code.startsWith("SQLITE_")) {
      return error;
    }
    if (/^SQLITE_(CORRUPT|NOTADB)/.test(code)) {
      return this.#setAside(`is damaged (${messageOf(error)})`);
    }
    const text = `the store ${this.path} fails: ${messageOf(error)}`;
    return /^SQLITE_(BUSY|LOCKED)/.test(code)
      ? new StoreBusy(`${text}; another process has it open`, undefined, { cause: error })
      : new StoreError(text, undefined, { cause: error });
  }
}

const SET_META = "REPLACE INTO meta VALUES (?, ?)";

interface Prepared {
  readonly begin: Statement;
  readonly commit: Statement;
  readonly rollback: Statement;
  readonly get: Statement;
  readonly set: Statement;
  readonly setMany: Statement;
  readonly remove: Statement;
  readonly wipe: Statement;
  readonly count: Statement;
  readonly from: Statement;
  readonly between: Statement;
  readonly meta: Statement;
}

function prepare(db: Database): Prepared {
  const made = (sql: string): Statement => db.prepare<unknown[], unknown>(sql);
  return {
    begin: made("BEGIN IMMEDIATE"),
    commit: made("COMMIT"),
    rollback: made("ROLLBACK"),
    get: made("SELECT v FROM rows WHERE k = ?").pluck(),
    set: made("REPLACE INTO rows VALUES (?, ?)"),
    setMany: made(`REPLACE INTO rows VALUES ${Array(SET_ROWS).fill("(?, ?)").join(", ")}`),
    remove: made("DELETE FROM rows WHERE k = ?"),
    wipe: made("DELETE FROM rows"),
    count: made("SELECT count(*) FROM rows").pluck(),
    from: made("SELECT k, v FROM rows WHERE k >= ? ORDER BY k LIMIT ?").raw(),
    between: made("SELECT k, v FROM rows WHERE k >= ? AND k < ? ORDER BY k LIMIT ?").raw(),
    meta: made(SET_META),
  };
}
