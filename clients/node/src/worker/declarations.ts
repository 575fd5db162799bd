/** What a worker says of itself: topics, tables, outputs, and the functions that handle records. */

import { serdeOf } from "../serdes/of.js";
import type { Serde } from "../serdes/serde.js";
import {
  bad,
  checkDefault,
  checkFunction,
  checkNames,
  checkOptions,
  checkPolicy,
  checkTables,
  checkTopic,
  type Names,
} from "./checks.js";
import type { Context } from "./context.js";
import { type DeclaredTable, GlobalTable, Output, SourceTable, Table, Topic } from "./declared.js";
import type { OnError } from "./policy.js";
import type { Batch, KafkaRecord } from "./records.js";
import { Declared, type HandlerCall } from "./topology.js";

/** The serdes of a topic, an output or a table. */
export interface Serdes<K, V> {
  readonly key: Serde<K>;
  readonly value: Serde<V>;
}

export interface TableOptions<K, V> extends Serdes<K, V> {
  /** Names the changelog topic; without it `<group>-<name>-changelog`. A missing one is created. */
  readonly changelog?: string | undefined;
}

export interface ReadTableOptions<K, V> extends Serdes<K, V> {
  /** The topic that the table is read from; without it the one that is called like the table. */
  readonly topic?: string | undefined;
}

export interface HandlerOptions {
  /** The tables that the handler uses. */
  readonly tables?: readonly DeclaredTable[];
  /** What happens to a record that cannot be processed; without it what the worker says. */
  readonly onError?: OnError | undefined;
}

export interface EveryOptions {
  readonly seconds?: number;
  readonly minutes?: number;
  readonly hours?: number;
  /** The tables that it uses; without them all of the set, and the global ones. */
  readonly tables?: readonly DeclaredTable[];
  /** Names the set, by one of its topics. */
  readonly topic?: Topic<unknown, unknown> | undefined;
}

const SERDES: Names<Serdes<unknown, unknown>> = { key: true, value: true };
const TABLE = { ...SERDES, default: true, changelog: true };
const READ_TABLE: Names<ReadTableOptions<unknown, unknown>> = { ...SERDES, topic: true };
const HANDLER: Names<HandlerOptions> = { tables: true, onError: true };
const EVERY: Names<EveryOptions> = {
  seconds: true,
  minutes: true,
  hours: true,
  tables: true,
  topic: true,
};

/** A handler of batches, sync or async. */
export type ProcessCall<K, V> = (batch: Batch<K, V>, ctx: Context) => unknown;
/** A handler of records, sync or async. */
export type EachCall<K, V> = (record: KafkaRecord<K, V>, ctx: Context) => unknown;
/** What is called by time, sync or async. */
export type EveryCall = (ctx: Context) => unknown;

/**
 * The part of a Worker that is written down before it runs.
 *
 * Throws UsageError, in one sentence: at once for a serde that is none or a name that is declared
 * twice; when the worker starts for what only the whole of it shows.
 */
export class Declarations {
  /** What was declared so far. */
  protected readonly declared: Declared;
  /** Set when the worker starts: what is declared from then on would not count. */
  protected started = false;

  constructor(group?: string) {
    this.declared = new Declared(group);
  }

  // -- what there is

  /** Declare a source topic. It needs a handler: process() or each(). */
  topic<K, V>(name: string, serdes: Serdes<K, V>): Topic<K, V> {
    const made = new Topic(name, ...both("topic", name, serdes, SERDES));
    this.#once("topic", name, this.declared.topics);
    this.declared.topics.push(made);
    return made;
  }

  /** Declare a topic that handlers write to, with ctx.send(). */
  output<K, V>(name: string, serdes: Serdes<K, V>): Output<K, V> {
    const made = new Output(name, ...both("output", name, serdes, SERDES));
    this.#once("output", name, this.declared.outputs);
    this.declared.outputs.push(made);
    return made;
  }

  /**
   * Declare a table that handlers keep. Its truth is the changelog topic.
   *
   * default makes the value of a key that has none: get() gives it then, instead of undefined.
   */
  table<K, V>(
    name: string,
    options: TableOptions<K, V> & { readonly default: () => NoInfer<V> },
  ): Table<K, V, never>;
  table<K, V>(
    name: string,
    options: TableOptions<K, V> & { readonly default?: undefined },
  ): Table<K, V, undefined>;
  table<K, V>(
    name: string,
    options: TableOptions<K, V> & { readonly default?: (() => V) | undefined },
  ): Table<K, V, undefined> {
    const serdes = both("table", name, options, TABLE);
    checkDefault(name, options.default);
    const made = new Table<K, V>(name, ...serdes, options.default, options.changelog);
    this.#add(made);
    return made;
  }

  /**
   * Declare a read-only table: the last value of each key of a topic that others write.
   *
   * The topic is partitioned like the source, by the same keys. The table is whole before the first
   * record comes, and follows its topic.
   */
  sourceTable<K, V>(name: string, options: ReadTableOptions<K, V>): SourceTable<K, V> {
    const serdes = both("table", name, options, READ_TABLE);
    const made = new SourceTable(name, ...serdes, options.topic ?? name);
    this.#add(made);
    return made;
  }

  /** Declare a read-only table of which every worker has every partition. */
  globalTable<K, V>(name: string, options: ReadTableOptions<K, V>): GlobalTable<K, V> {
    const serdes = both("table", name, options, READ_TABLE);
    const made = new GlobalTable(name, ...serdes, options.topic ?? name);
    this.#add(made);
    return made;
  }

  /**
   * Read topics together: their handlers share tables, and a task has a partition of each.
   *
   * They have the same number of partitions, and records that belong together the same key.
   */
  join(...topics: Topic<unknown, unknown>[]): void {
    this.#open("join()");
    this.declared.joins.push(topics);
  }

  // -- what is done

  /**
   * Handle the topic in batches.
   *
   * The unit is the batch: when the handler throws, nothing of it is committed and the program
   * stops; the next start begins with it. onError is asked for records that do not decode.
   */
  process<K, V>(topic: Topic<K, V>, handler: ProcessCall<K, V>): void;
  process<K, V>(topic: Topic<K, V>, options: HandlerOptions, handler: ProcessCall<K, V>): void;
  process<K, V>(
    topic: Topic<K, V>,
    ...given: [ProcessCall<K, V>] | [HandlerOptions, ProcessCall<K, V>]
  ): void {
    this.#handle("process", topic, given);
  }

  /**
   * Handle the topic record by record.
   *
   * The unit is the record: when the handler throws, what it has done for this record is undone, and
   * onError says how it goes on.
   */
  each<K, V>(topic: Topic<K, V>, handler: EachCall<K, V>): void;
  each<K, V>(topic: Topic<K, V>, options: HandlerOptions, handler: EachCall<K, V>): void;
  each<K, V>(
    topic: Topic<K, V>,
    ...given: [EachCall<K, V>] | [HandlerOptions, EachCall<K, V>]
  ): void {
    this.#handle("each", topic, given);
  }

  /**
   * Call a function by time, once per task, between batches; what it does is committed.
   *
   * It has the tables that are named, or all. A worker of several sets names tables or the topic of
   * one. A call that is late is made once, not made up for.
   */
  every(options: EveryOptions, handler: EveryCall): void {
    checkOptions("every", options);
    checkNames("every()", options, EVERY);
    const { seconds = 0, minutes = 0, hours = 0, tables = [], topic } = options;
    const everyMs = 1000 * (seconds + 60 * minutes + 3600 * hours);
    const name = nameOf(handler, `the function of every(${everyMs / 1000} s)`);
    this.#check(name, handler, ["ctx"], tables);
    this.declared.tickers.push({ name, call: handler, everyMs, tables: [...tables], topic });
  }

  // -- inside

  #handle(
    call: "process" | "each",
    topic: Topic<unknown, unknown>,
    given: readonly [HandlerCall] | readonly [HandlerOptions, HandlerCall],
  ): void {
    checkTopic(call, topic);
    const [options, handler] = given.length === 1 ? [{}, given[0]] : given;
    checkOptions(call, options);
    checkNames(`${call}()`, options, HANDLER);
    const { tables = [], onError } = options;
    const name = nameOf(handler, `the handler of '${topic.name}'`);
    const each = call === "each";
    this.#check(name, handler, [each ? "record" : "batch", "ctx"], tables, onError);
    this.declared.handlers.push({ name, topic, call: handler, each, tables: [...tables], onError });
  }

  #add(table: DeclaredTable): void {
    this.#once("table", table.name, this.declared.tables);
    this.declared.tables.push(table);
  }

  #check(
    name: string,
    call: unknown,
    parameters: readonly string[],
    tables: unknown,
    onError?: unknown,
  ): void {
    this.#open(name);
    checkFunction(name, call, parameters);
    checkTables(name, tables);
    checkPolicy(name, onError);
  }

  #open(name: string): void {
    if (this.started) {
      bad(`${name} is declared while the worker runs; declare it before`);
    }
  }

  #once(what: string, name: string, made: readonly { readonly name: string }[]): void {
    this.#open(`the ${what} '${name}'`);
    if (made.some((each) => each.name === name)) {
      bad(`the ${what} '${name}' is declared twice; declare it once and use what comes back`);
    }
  }
}

/** The serdes of what is declared. names are all its options. */
function both<K, V>(
  what: string,
  name: string,
  given: Serdes<K, V>,
  names: object,
): [Serde<K>, Serde<V>] {
  if (typeof given !== "object" || given === null) {
    bad(`${what} '${name}' needs its serdes: { key: ..., value: ... }`);
  }
  checkNames(`${what} '${name}'`, given, names);
  return [
    serdeOf(given.key, true, `the key of ${what} '${name}'`),
    serdeOf(given.value, false, `the value of ${what} '${name}'`),
  ];
}

function nameOf(call: unknown, otherwise: string): string {
  return (typeof call === "function" && call.name) || otherwise;
}
