/**
 * What a worker declares. topic(), output(), table() and the like of a Worker make these; they are
 * also what a Context finds things by, and carry the types that a compiler infers.
 */

import type { Serde } from "../serdes/serde.js";

/** What has keys and values, and the serdes of both. */
export abstract class Keyed<K, V> {
  readonly name: string;
  readonly key: Serde<K>;
  readonly value: Serde<V>;

  constructor(name: string, key: Serde<K>, value: Serde<V>) {
    this.name = name;
    this.key = key;
    this.value = value;
  }
}

/** A source topic. */
export class Topic<K, V> extends Keyed<K, V> {
  readonly kind = "topic";
}

/** A topic that handlers write to: ctx.send(output, { key, value }). */
export class Output<K, V> extends Keyed<K, V> {
  readonly kind = "output";
}

/**
 * A table that handlers keep: ctx.table(table) is like a Map of the batch's partition. Missing is
 * what get() gives for a key that has no row: undefined, or never when there is a default.
 */
export class Table<K, V, Missing = undefined> extends Keyed<K, V> {
  readonly kind = "table";
  /** Makes the value of a key that has none. */
  readonly default: (() => V | Missing) | undefined;
  /** The topic that was named; undefined: `<group>-<name>-changelog`. */
  readonly changelog: string | undefined;

  constructor(
    name: string,
    key: Serde<K>,
    value: Serde<V>,
    makeDefault?: () => V | Missing,
    changelog?: string,
  ) {
    super(name, key, value);
    this.default = makeDefault;
    this.changelog = changelog;
  }
}

/** A table that is what a topic says which others write. */
abstract class ReadTable<K, V> extends Keyed<K, V> {
  readonly topic: string;

  constructor(name: string, key: Serde<K>, value: Serde<V>, topic: string) {
    super(name, key, value);
    this.topic = topic;
  }
}

/** A read-only table of the batch's partition: the last value of each key of a topic. */
export class SourceTable<K, V> extends ReadTable<K, V> {
  readonly kind = "sourceTable";
}

/** A read-only table of which every worker has every partition. */
export class GlobalTable<K, V> extends ReadTable<K, V> {
  readonly kind = "globalTable";
}

export type AnyTable<K, V> = Table<K, V, V | undefined> | SourceTable<K, V> | GlobalTable<K, V>;
export type DeclaredTopic = Topic<unknown, unknown>;
export type DeclaredOutput = Output<unknown, unknown>;
export type DeclaredTable = AnyTable<unknown, unknown>;
