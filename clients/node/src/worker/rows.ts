/**
 * The rows of a task as handlers see them (table-rows.ts), over rows of bytes.
 *
 * Flow: a unit of work (one batch of process(), one record of each(), one call of every()) reads
 * through Rows to what is committed or waits for its commit, and everything that it has touched is
 * held here. At its end settle() encodes what has changed, keep() hands it over, or undo() drops it.
 *
 * INVARIANT: a mutable value that a read handed out, or that was set, is encoded when its unit ends,
 * and is written if its bytes have changed: get(k).push(x) is not lost.
 * INVARIANT: reading writes nothing, however another program has spelled the same value.
 * INVARIANT: after undo() nothing of the unit is left, values changed in place included.
 * INVARIANT: what is held from unit to unit is what the table says: in its epoch nobody else writes
 * it but a replay after a reset, which drops it (undo), and values that may be changed in place are
 * not held.
 */

import { PLAIN } from "../encode.js";
import { SerdeError, UsageError } from "../errors.js";
import { ownBytes } from "../serdes/own.js";
import { bytes } from "../serdes/scalars.js";
import { shown } from "../serdes/wrong.js";
import type { KeyText } from "../stores/base.js";
import type { Table } from "./declared.js";
import { type Keys, keysOf } from "./keys.js";
import { describe } from "./policy.js";
import type { TableRows } from "./table-rows.js";

/** What Rows needs of a TableView. */
export interface View {
  find(key: KeyText): Buffer | null;
  write(key: KeyText, value: Buffer | null): void;
  scan(over?: ReadonlyMap<KeyText, Buffer | null>): Iterable<[KeyText, Buffer]>;
}

/** What a key is for the unit: it has a row, or none, or a default that nobody has changed yet. */
type State = "row" | "none" | "default";

class Held<V> {
  readonly raw: KeyText;
  /** The bytes of the row when the unit began; null: there was none; undefined: nobody has asked. */
  below: Buffer | null | undefined;
  state: State;
  value: V | undefined;
  /** It was set or removed in the unit. */
  written = false;
  /** The bytes of the default when it was handed out. */
  handed: Buffer | undefined = undefined;
  /** What the unit writes, as settle() has found it; null removes the row, undefined: nothing. */
  change: Buffer | null | undefined = undefined;

  constructor(raw: KeyText, below: Buffer | null | undefined, state: State, value: V | undefined) {
    this.raw = raw;
    this.below = below;
    this.state = state;
    this.value = value;
  }
}

/** How many rows of single values are kept decoded from unit to unit. */
const KEPT = 4096;
/** And how many bytes they have. */
const KEPT_BYTES = 4 << 20;

/** In a walk it stands for the bytes of rows that were set in the unit: they are not asked for. */
const UNREAD = Buffer.alloc(0);

export class Rows<K, V, Missing = undefined> implements TableRows<K, V, Missing> {
  readonly #table: Table<K, V, Missing>;
  readonly #view: View;
  readonly #keys: Keys<K>;
  readonly #mutable: boolean;
  /** Whether what is held is good for the units to come: nobody else can change it. */
  readonly #lasts: boolean;
  /** By key where Keys says so, else by the text of the key. */
  readonly #held = new Map<K | KeyText, Held<V>>();
  /** About how many bytes that is, but for what the unit has written. */
  #heldBytes = 0;
  /** What of it was written in the unit. Mutable values may be changed without a word. */
  readonly #written: Held<V>[] = [];
  /** What was found last: programs get and set one key. */
  #lastId: K | KeyText | undefined = undefined;
  #last: Held<V> | undefined = undefined;

  constructor(table: Table<K, V, Missing>, view: View) {
    this.#table = table;
    this.#view = view;
    this.#keys = keysOf(table.name, table.key);
    this.#mutable = table.value.mutable ?? true;
    this.#lasts = !this.#mutable && (table.value as unknown) !== bytes();
  }

  get(key: K): V | Missing {
    const id = this.#keys.byValue ? key : this.#keys.toText(key);
    const held = this.#lookup(id) ?? this.#find(id, key);
    return held.state === "none" ? this.#default(held) : (held.value as V);
  }

  has(key: K | null): boolean {
    if (key === null || key === undefined) {
      return false;
    }
    const id = this.#keys.byValue ? key : this.#keys.toText(key);
    const held = this.#lookup(id);
    return held === undefined
      ? this.#view.find(this.#keys.toText(key)) !== null
      : this.#isRow(held);
  }

  set(key: K, value: V): this {
    if (value === null || value === undefined) {
      throw new UsageError(
        `${value} is no value of table '${this.#table.name}'; delete() removes a row`,
        "null_value",
      );
    }
    const id = this.#keys.byValue ? key : this.#keys.toText(key);
    let held = this.#lookup(id);
    if (held === undefined) {
      held = new Held<V>(this.#keys.toText(key), undefined, "row", value);
      this.#hold(id, held);
    }
    held.value = value;
    held.state = "row";
    this.#write(held);
    return this;
  }

  delete(key: K): boolean {
    const id = this.#keys.byValue ? key : this.#keys.toText(key);
    let held = this.#lookup(id);
    if (held === undefined) {
      const raw = this.#keys.toText(key);
      const below = this.#view.find(raw);
      held = new Held<V>(raw, below, "none", undefined);
      this.#hold(id, held);
      if (below === null) {
        return false;
      }
    } else if (!this.#isRow(held)) {
      return false;
    }
    this.#remove(held);
    return true;
  }

  clear(): void {
    for (const [key, raw, data, found] of this.#walk()) {
      const held = found ?? new Held<V>(raw, data, "none", undefined);
      if (found === undefined) {
        this.#hold(this.#keys.byValue ? key : raw, held);
      }
      this.#remove(held);
    }
  }

  get size(): number {
    let size = 0;
    for (const _ of this.#walk()) {
      size++;
    }
    return size;
  }

  *keys(): Generator<K, void, undefined> {
    for (const [key] of this.#walk()) {
      yield key;
    }
  }

  *values(): Generator<V, void, undefined> {
    for (const [, value] of this.entries()) {
      yield value;
    }
  }

  *entries(): Generator<[K, V], void, undefined> {
    for (const [key, raw, data, found] of this.#walk()) {
      if (found !== undefined) {
        yield [key, found.value as V];
        continue;
      }
      const held = this.#decoded(raw, data);
      if (this.#mutable) {
        this.#hold(this.#keys.byValue ? key : raw, held);
      }
      yield [key, held.value as V];
    }
  }

  forEach(each: (value: V, key: K) => void): void {
    for (const [key, value] of this.entries()) {
      each(value, key);
    }
  }

  [Symbol.iterator](): Generator<[K, V], void, undefined> {
    return this.entries();
  }

  // -- the unit of work

  /** What the unit writes; right after settle(). */
  get changes(): ReadonlyMap<KeyText, Buffer | null> {
    const changes = new Map<KeyText, Buffer | null>();
    for (const { raw, change } of this.#touched()) {
      if (change !== undefined) {
        changes.set(raw, change);
      }
    }
    return changes;
  }

  /** Encode what the unit has changed. Gives about how many bytes that is. Throws SerdeError. */
  settle(): number {
    let size = 0;
    for (const held of this.#touched()) {
      const change = this.#change(held);
      held.change = change;
      if (change !== undefined) {
        size += PLAIN + held.raw.length + (change === null ? 0 : change.length);
      }
    }
    return size;
  }

  /** Hand the changes over to the next commit. settle() comes first. */
  keep(): void {
    for (const held of this.#touched()) {
      const { raw, change } = held;
      if (change !== undefined) {
        this.#view.write(raw, change);
        held.below = change;
        this.#heldBytes += change?.length ?? 0;
        held.change = undefined;
      }
      held.written = false;
    }
    if (this.#written.length > 0) {
      this.#written.length = 0;
    }
    if (!this.#lasts || this.#held.size > KEPT || this.#heldBytes > KEPT_BYTES) {
      this.undo();
    }
  }

  /** Drop what the unit has written and changed. */
  undo(): void {
    this.#held.clear();
    this.#heldBytes = 0;
    this.#written.length = 0;
    this.#lastId = undefined;
    this.#last = undefined;
  }

  // -- inside

  #lookup(id: K | KeyText): Held<V> | undefined {
    if (id === this.#lastId && this.#last !== undefined) {
      return this.#last;
    }
    const held = this.#held.get(id);
    this.#lastId = id;
    this.#last = held;
    return held;
  }

  #find(id: K | KeyText, key: K): Held<V> {
    const raw = this.#keys.byValue ? this.#keys.toText(key) : (id as KeyText);
    const below = this.#view.find(raw);
    const held =
      below === null ? new Held<V>(raw, null, "none", undefined) : this.#decoded(raw, below);
    this.#hold(id, held);
    return held;
  }

  #hold(id: K | KeyText, held: Held<V>): void {
    this.#held.set(id, held);
    this.#heldBytes += held.below?.length ?? 0;
    this.#lastId = id;
    this.#last = held;
  }

  #write(held: Held<V>): void {
    if (!held.written) {
      held.written = true;
      this.#written.push(held);
    }
  }

  #remove(held: Held<V>): void {
    held.state = "none";
    held.value = undefined;
    this.#write(held);
  }

  /** What the unit may have changed. */
  #touched(): Iterable<Held<V>> {
    return this.#mutable ? this.#held.values() : this.#written;
  }

  #default(held: Held<V>): V | Missing {
    const made = this.#table.default?.();
    if (this.#mutable && made !== undefined) {
      held.value = made as V;
      held.handed = this.#encode(held, made as V);
      held.state = "default";
    }
    return made as V | Missing;
  }

  /** Whether the key has a row. A default that was changed has become one. */
  #isRow(held: Held<V>): boolean {
    if (
      held.state === "default" &&
      !this.#encode(held, held.value as V).equals(held.handed as Buffer)
    ) {
      held.state = "row";
      this.#write(held);
    }
    return held.state === "row";
  }

  /** What of it the unit writes: bytes, null to remove the row, undefined when nothing. */
  #change(held: Held<V>): Buffer | null | undefined {
    if (!this.#isRow(held)) {
      return held.written && held.below !== null ? null : undefined;
    }
    const { below, written } = held;
    if (!written && !this.#mutable) {
      return undefined;
    }
    const data = this.#encode(held, held.value as V);
    if (written || below === null || below === undefined) {
      return data;
    }
    if (data.equals(below)) {
      return undefined;
    }
    // Another writer may have spelled the same value otherwise: that is no change.
    const same = this.#encode(held, this.#decode(held.raw, below)).equals(data);
    return same ? undefined : data;
  }

  /** All rows that there are for the unit, with what it holds of them. */
  *#walk(): Generator<[K, KeyText, Buffer, Held<V> | undefined], void, undefined> {
    const over = new Map<KeyText, Buffer | null>();
    for (const held of this.#touched()) {
      const row = this.#isRow(held);
      if (held.written) {
        over.set(held.raw, row ? UNREAD : null);
      }
    }
    for (const [raw, data] of this.#view.scan(over)) {
      const key = this.#keys.ofText(raw);
      const held = this.#held.get(this.#keys.byValue ? key : raw);
      // It may have changed since the walk began.
      if (held === undefined ? data !== UNREAD : this.#isRow(held)) {
        yield [key, raw, data, held];
      }
    }
  }

  #decoded(raw: KeyText, data: Buffer): Held<V> {
    return new Held(raw, data, "row", this.#decode(raw, data));
  }

  #decode(raw: KeyText, data: Buffer): V {
    try {
      return this.#table.value.decode(data);
    } catch (error) {
      throw badValue(this.#table.name, raw, error);
    }
  }

  #encode(held: Held<V>, value: V): Buffer {
    try {
      return ownBytes(this.#table.value, value);
    } catch (error) {
      const key = shown(Buffer.from(held.raw, "latin1"));
      const text = `the value of ${key} in table '${this.#table.name}' cannot be written`;
      throw new SerdeError(`${text}: ${describe(error)}`, "serde", { cause: error });
    }
  }
}

/** Say that a row does not decode. */
export function badValue(table: string, raw: KeyText, error: unknown): SerdeError {
  const key = shown(Buffer.from(raw, "latin1"));
  const text = `the row ${key} of table '${table}' does not decode: ${describe(error)}`;
  return new SerdeError(text, "serde", { cause: error });
}
