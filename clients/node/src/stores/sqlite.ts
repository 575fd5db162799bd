/**
 * Tables in SQLite: they survive the process, and a restart replays only what came after.
 *
 * One file for each task and table; see files.ts for where it is and who has it, sqlite-file.ts for
 * what is in it.
 *
 * Rows and checkpoint change in one transaction (WAL, synchronous = NORMAL: safe against a crash of
 * the process; after a power failure the last transactions may be missing, together with their
 * checkpoint). Restored rows are gathered for a moment and written sorted, each key once, which is
 * several times faster; reads see them.
 */

import type { Batch } from "../batch.js";
import { notice } from "../notice.js";
import type { KeyText, Store, Writes } from "./base.js";
import { load } from "./driver.js";
import { type FileOptions, FileStores, OPEN_WITHIN_MS, pages } from "./files.js";
import { type FileAccess, SqliteFile } from "./sqlite-file.js";

// The more rows a transaction has, the more of them share a page that it writes. What all tables
// gather together is what comes from Kafka in GATHER_MS.
const GATHER_ROWS = 131_072;
const GATHER_BYTES = 32 << 20;
const GATHER_MS = 1000;

/** Opens tables below a directory, which workers of one group may share. */
export class SqliteStores extends FileStores<SqliteStore> {
  protected readonly suffix = ".sqlite";

  /** Throws UsageError when better-sqlite3, which it needs, is not installed. */
  constructor(root: string, options: FileOptions = {}) {
    super(root, options);
    load();
  }

  protected openFile(path: string, identity: string, withinMs: number): SqliteStore {
    return new SqliteStore(path, identity, { withinMs, notice: this.notice });
  }
}

export interface SqliteOptions extends Partial<FileAccess> {
  /** Milliseconds that never go back. */
  readonly now?: () => number;
}

/**
 * A table in one SQLite file. identity says whose rows they are.
 *
 * Throws StoreBusy when another process has it open and does not let go in time.
 */
export class SqliteStore implements Store {
  readonly ordered = true;
  readonly #file: SqliteFile;
  readonly #now: () => number;
  /** What is not written yet. Values are views of the frames that brought them. */
  #gathered = new Map<KeyText, Buffer | null>();
  #gatheredBytes = 0;
  #flushedAt: number;
  #checkpoint: string | null;
  /** The checkpoint in the file. */
  #written: string | null;

  constructor(path: string, identity: string, options: SqliteOptions = {}) {
    const { withinMs = OPEN_WITHIN_MS, now = () => performance.now() } = options;
    this.#file = new SqliteFile(path, identity, { withinMs, notice: options.notice ?? notice });
    this.#checkpoint = this.#written = this.#file.checkpoint;
    this.#now = now;
    this.#flushedAt = now();
  }

  get path(): string {
    return this.#file.path;
  }

  get size(): number {
    this.flush();
    return this.#file.count();
  }

  checkpoint(): string | null {
    return this.#checkpoint;
  }

  get(key: KeyText): Buffer | null {
    const gathered = this.#gathered.get(key);
    if (gathered !== undefined) {
      return gathered && Buffer.from(gathered);
    }
    return this.#file.get(key);
  }

  /** See Store. In the order of keys. */
  items(start: KeyText = "", stop?: KeyText): IterableIterator<[KeyText, Buffer]> {
    const read = (at: KeyText, limit: number) => {
      this.flush();
      return this.#file.page(at, stop ?? null, limit);
    };
    return pages(read, start);
  }

  apply(batch: Batch): void {
    const gathered = this.#gathered;
    for (let i = 0; i < batch.length; i++) {
      const key = batch.keyTextAt(i);
      if (key !== null) {
        gathered.set(key, batch.valueAt(i));
      }
    }
    this.#gatheredBytes += batch.byteLength;
    this.#checkpoint = batch.checkpoint ?? this.#checkpoint;
    if (
      gathered.size >= GATHER_ROWS ||
      this.#gatheredBytes >= GATHER_BYTES ||
      this.#now() - this.#flushedAt >= GATHER_MS
    ) {
      this.flush();
    }
  }

  applyCommit(rows: Writes, checkpoint: string): void {
    for (const [key, value] of rows) {
      this.#gathered.set(key, value);
    }
    this.#checkpoint = checkpoint;
    this.flush();
  }

  flush(): void {
    if (this.#gathered.size > 0 || this.#checkpoint !== this.#written) {
      this.#file.write(this.#gathered, this.#checkpoint);
      this.#written = this.#checkpoint;
      this.#forget();
    }
    // From its end: a large table takes longer than GATHER_MS, and would gather no more.
    this.#flushedAt = this.#now();
  }

  wipe(): void {
    this.#forget();
    this.#checkpoint = null;
    this.#file.wipe();
    this.#written = null;
  }

  close(): void {
    if (this.#file.open) {
      try {
        this.flush();
      } finally {
        this.#file.close();
      }
    }
  }

  #forget(): void {
    this.#gathered = new Map();
    this.#gatheredBytes = 0;
  }
}
