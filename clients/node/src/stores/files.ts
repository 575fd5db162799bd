/**
 * What stores that live in files have in common: where they are, who has them, what is set aside.
 *
 * Layout: `<root>/<set or global table>/<table>.<partition><suffix>`, one file for each task and
 * table, names made safe (safeName). Each knows which table of which topic and partition it holds.
 * Workers of one machine may share a root: where another process has a file open (that is the
 * active, and this one keeps a copy), the next of `<table>.<partition>.copy-2<suffix>`, `-3`, … is
 * taken. One that is damaged or holds something else is renamed to `….bad-N`, with a notice, and
 * the table starts empty: Kafka has it.
 */

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, renameSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { StoreBusy, StoreCorrupt, StoreError } from "../errors.js";
import { notice } from "../notice.js";
import type { Task } from "../tasks.js";
import { messageOf } from "../thrown.js";
import type { KeyText, Store, Stores } from "./base.js";

/** Files of one table, of processes that share a directory. */
const COPIES = 16;
const FIRST_PAGE = 16; // rows; a short range should not read far behind its end
const PAGE_ROWS = 4096;
const PAGE_BYTES = 1 << 20;

export type Rows = readonly [KeyText, Buffer][];

export interface FileOptions {
  /** How long to wait for another process that hands a task over to let go of its file. */
  readonly openWithinMs?: number;
  /** Gets what a person should read: a file is damaged and was set aside. Without it: stderr. */
  readonly notice?: (sentence: string) => void;
}

export const OPEN_WITHIN_MS = 2000;

/** Opens tables below a directory, which workers of one group may share. */
export abstract class FileStores<S extends Store> implements Stores {
  readonly root: string;
  protected abstract readonly suffix: string;
  protected readonly notice: (sentence: string) => void;
  readonly #openWithinMs: number;

  constructor(root: string, options: FileOptions = {}) {
    this.root = root;
    this.notice = options.notice ?? notice;
    this.#openWithinMs = options.openWithinMs ?? OPEN_WITHIN_MS;
  }

  /** Where the store of a table is; where others are that share the directory, from 2 on. */
  path(task: Task, table: string, copy = 1): string {
    const name = `${safeName(table)}.${task.partition}${copy > 1 ? `.copy-${copy}` : ""}`;
    return join(this.root, safeName(task.set), `${name}${this.suffix}`);
  }

  open(task: Task, table: string): S {
    const identity = `${table} ${task.tables.get(table)?.topic}/${task.partition}`;
    const paths = Array.from({ length: COPIES }, (_, i) => this.path(task, table, i + 1));
    const kept = paths
      .filter((path) => existsSync(path))
      .map((path) => ({ path, at: writtenLast(path) }))
      .sort((a, b) => b.at - a.at)
      .map(({ path }) => path);
    const [newest] = kept;
    let store = this.#free(kept, identity, 0);
    if (store === null && task.role === "active" && newest !== undefined) {
      // Who hands a task over lets go of its file in a moment, which saves a replay.
      store = this.#free([newest], identity, this.#openWithinMs);
    }
    const fresh = paths.slice(0, -1).filter((path) => !kept.includes(path));
    store ??= this.#free(fresh, identity, 0);
    return store ?? this.openFile(this.path(task, table, COPIES), identity, 0);
  }

  /** Open one. Throws StoreBusy when it is not let go within so many ms. */
  protected abstract openFile(path: string, identity: string, withinMs: number): S;

  /** Open the first that nobody has; null when there is none. */
  #free(paths: readonly string[], identity: string, withinMs: number): S | null {
    for (const path of paths) {
      try {
        return this.openFile(path, identity, withinMs);
      } catch (error) {
        if (!(error instanceof StoreBusy)) {
          throw error;
        }
      }
    }
    return null;
  }
}

function writtenLast(path: string): number {
  const at = (file: string): number => statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return Math.max(at(path), at(`${path}-wal`));
}

/** Make the directory that a store is in. Throws StoreError when that fails. */
export function makeParent(path: string): void {
  const parent = dirname(path);
  try {
    mkdirSync(parent, { recursive: true });
  } catch (error) {
    const text = `the directory ${parent} cannot be made: ${messageOf(error)}`;
    throw new StoreError(text, undefined, { cause: error });
  }
}

/** Rename a store that is of no use, and say so. It must be closed; the error is for throwing. */
export function setAside(
  path: string,
  why: string,
  companions: readonly string[],
  say: (sentence: string) => void,
): StoreCorrupt {
  let n = 1;
  while (existsSync(`${path}.bad-${n}`)) {
    n += 1;
  }
  const aside = `${path}.bad-${n}`;
  for (const suffix of ["", ...companions]) {
    if (existsSync(`${path}${suffix}`)) {
      renameSync(`${path}${suffix}`, `${aside}${suffix}`);
    }
  }
  const kept = basename(aside);
  const error = new StoreCorrupt(
    `the store ${path} ${why}; it is kept as ${kept}, and the table is restored from Kafka`,
  );
  say(error.message);
  return error;
}

/**
 * Walk a store that may change meanwhile; read(key, n) gives up to n rows from a key on.
 *
 * INVARIANT: keys only ascend, so no row comes twice, and none that stays is passed over.
 * INVARIANT: nothing of the store is held between two pages: no cursor, snapshot or lock.
 */
export function* pages(
  read: (start: KeyText, limit: number) => Rows,
  start: KeyText,
): IterableIterator<[KeyText, Buffer]> {
  let at = start;
  let wanted = FIRST_PAGE;
  for (;;) {
    const rows = read(at, wanted);
    yield* rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < wanted) {
      return;
    }
    at = `${last[0]}\0`; // the very next key in the order of bytes
    const bytes = rows.reduce((sum, [key, value]) => sum + key.length + value.length, 1);
    const fitting = Math.floor((rows.length * PAGE_BYTES) / bytes);
    wanted = Math.max(1, Math.min(PAGE_ROWS, 2 * rows.length, fitting));
  }
}

/** Make a file name of any text: letters, digits, - _ and inner dots stay, others become %XX. */
export function safeName(name: string): string {
  const utf8 = Buffer.from(name);
  const made = Array.from(utf8, (byte, i) => {
    const char = String.fromCharCode(byte);
    const stays = /[A-Za-z0-9_-]/.test(char) || (char === "." && i > 0);
    return stays ? char : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }).join("");
  if (made.length > 120) {
    const digest = createHash("sha256").update(utf8).digest("hex");
    return `${made.slice(0, 100)}~${digest.slice(0, 16)}`;
  }
  return made || "%";
}
