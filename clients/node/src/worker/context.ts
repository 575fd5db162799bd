/** What a handler gets beside its records: tables, outputs, and where it is. */

import { inspect } from "node:util";
import { Code } from "../codes.js";
import type { OutputRecord } from "../encode.js";
import { SerdeError, UsageError } from "../errors.js";
import type { HeaderInit } from "../headers.js";
import { ownBytes } from "../serdes/own.js";
import type { Serde } from "../serdes/serde.js";
import { ASYNC_SCHEMA } from "../serdes/standard.js";
import type {
  DeclaredOutput,
  DeclaredTable,
  GlobalTable,
  Output,
  SourceTable,
  Table,
} from "./declared.js";
import { describe } from "./policy.js";
import { Rows } from "./rows.js";
import type { ReadonlyTableRows, TableRows } from "./table-rows.js";
import { UnitRows } from "./unit-rows.js";
import type { Work } from "./work.js";

const UNDECLARED_TABLE = "undeclared_table";
const PLAIN_HANDLER = "plain_handler";
/** Codes of mistakes in the program itself: no record is at fault. */
export const MISTAKES: ReadonlySet<string> = new Set([
  ASYNC_SCHEMA,
  Code.UndeclaredOutput,
  UNDECLARED_TABLE,
  PLAIN_HANDLER,
]);

/** Whether it is a mistake in the program, also when a serde has said so: no policy is asked. */
export function isMistake(error: unknown): boolean {
  if (!(error instanceof Error)) {
    return false;
  }
  const code = "code" in error && MISTAKES.has(String(error.code));
  return code || (error instanceof SerdeError && isMistake(error.cause));
}

/** A record that a handler writes. What is left out is null, or the time of sending. */
export interface Send<K, V> {
  readonly key?: K | null;
  readonly value?: V | null;
  /** In order; a name may come more than once. */
  readonly headers?: readonly HeaderInit[];
  /** Milliseconds since 1970. */
  readonly timestamp?: number;
}

/** What the runner lends to a Context. */
export interface CallScope {
  /** Whether the call that the context was made for goes on. */
  inside(): boolean;
  /** Whether the task has gone. */
  stale(): boolean;
  /** Aborts when the task is revoked or lost. Asked only when a handler asks. */
  signal(): AbortSignal;
  /** Tells the sidecar that work goes on. */
  progress(): void;
}

/**
 * The tables of the batch's partition by table(), the outputs by send().
 *
 * Good for the call that it was made for. What is written becomes part of one commit, with the
 * position of the records.
 */
export class Context {
  readonly #who: string;
  readonly #work: Work;
  readonly #allowed: readonly DeclaredTable[];
  readonly #outputs: readonly DeclaredOutput[];
  readonly #inside: CallScope;
  /** What was asked for last, and what was given. */
  #latest: DeclaredTable | undefined = undefined;
  #lent: unknown = undefined;

  constructor(
    who: string,
    work: Work,
    allowed: readonly DeclaredTable[],
    outputs: readonly DeclaredOutput[],
    inside: CallScope,
  ) {
    this.#who = who;
    this.#work = work;
    this.#allowed = allowed;
    this.#outputs = outputs;
    this.#inside = inside;
  }

  /**
   * The table's rows: of this partition, or all of a global table.
   *
   * Throws UsageError for a table that the handler was not declared with: the program ends.
   */
  table<K, V, Missing>(table: Table<K, V, Missing>): TableRows<K, V, Missing>;
  table<K, V>(table: SourceTable<K, V> | GlobalTable<K, V>): ReadonlyTableRows<K, V>;
  table(table: DeclaredTable): unknown {
    this.#look();
    if (table === this.#latest) {
      return this.#lent; // handlers ask for one table again and again
    }
    if (!this.#allowed.includes(table)) {
      this.#refuse(table);
    }
    const rows = this.#work.rows(table);
    this.#latest = table;
    this.#lent = rows instanceof Rows ? new UnitRows(rows, this.#look) : rows;
    return this.#lent;
  }

  /**
   * Write a record to an output, as part of the commit.
   *
   * Its partition is that of its key, as with Kafka's Java client. Header values are bytes, or null.
   *
   * Throws SerdeError for a key or value that the output's serde cannot encode, and UsageError for
   * an output that this worker has not declared: the program ends.
   */
  send<K, V>(output: Output<K, V>, record: Send<NoInfer<K>, NoInfer<V>>): void {
    this.#look();
    if (!this.#outputs.includes(output)) {
      throw new UsageError(
        `${this.#who} writes to ${named(output)}, which is no output of this worker; make it with ` +
          "output() and give what that returns",
        Code.UndeclaredOutput,
      );
    }
    if (typeof record !== "object" || record === null) {
      throw new UsageError(
        `a record for output '${output.name}' must be { key, value }, not ${inspect(record)}`,
      );
    }
    const { key, value, headers, timestamp } = record;
    if (timestamp !== undefined && !(Number.isSafeInteger(timestamp) && timestamp >= 0)) {
      throw new UsageError(
        `the timestamp of a record for output '${output.name}' must be milliseconds, a whole ` +
          `number from 0 on, not ${inspect(timestamp)}`,
      );
    }
    const made: OutputRecord = {
      key: encoded("key", output.name, output.key, key),
      value: encoded("value", output.name, output.value, value),
      headers: headers === undefined ? undefined : checked(output.name, headers),
      timestamp,
    };
    this.#work.send(output.name, made);
  }

  /** The task's name: the set's and the partition's. */
  get task(): string {
    return this.#work.task.name;
  }

  get partition(): number {
    return this.#work.task.partition;
  }

  /** Aborts when the task is revoked or lost: for fetch() and the like. */
  get signal(): AbortSignal {
    return this.#inside.signal();
  }

  /**
   * Whether the task has gone meanwhile: a long handler may give up, its work is dropped.
   *
   * Told while an async handler awaits.
   */
  get stale(): boolean {
    return this.#inside.stale();
  }

  /**
   * Say, in the middle of long work, that it goes on: max_processing begins anew.
   *
   * Only in an async handler, and sent at its next await: a plain one keeps the event loop.
   */
  progress(): void {
    this.#look();
    this.#inside.progress();
  }

  readonly #look = (): void => {
    if (!this.#inside.inside()) {
      throw new UsageError(
        `the context of ${this.#who} is used after it has returned; await there whatever it starts`,
      );
    }
  };

  #refuse(table: unknown): never {
    throw new UsageError(
      typeof table === "string"
        ? `ctx.table() takes the table itself, not its name '${table}'`
        : `${this.#who} uses table ${named(table)} without declaring it; add it to tables: [...]`,
      UNDECLARED_TABLE,
    );
  }
}

/** What to throw when a handler that has told progress() turns out to have been a plain function. */
export function plainHandler(who: string): UsageError {
  return new UsageError(
    `${who} is a plain function, which keeps the event loop, so that no progress() can be sent; ` +
      "make it async, and await something that takes its time after ctx.progress()",
    PLAIN_HANDLER,
  );
}

function encoded<T>(
  what: string,
  output: string,
  serde: Serde<T>,
  value: T | null | undefined,
): Uint8Array | null {
  if (value === null || value === undefined) {
    return null;
  }
  try {
    return ownBytes(serde, value);
  } catch (error) {
    const text = `a ${what} for output '${output}' cannot be written: ${describe(error)}`;
    throw new SerdeError(text, "serde", { cause: error });
  }
}

/** Copy headers; refuse those that no record can have. */
function checked(output: string, headers: unknown): HeaderInit[] {
  if (!Array.isArray(headers)) {
    throw new UsageError(
      `the headers of a record for output '${output}' must be an array of [name, value]`,
    );
  }
  return headers.map((header: unknown) => {
    if (!Array.isArray(header) || header.length !== 2) {
      throw new UsageError(
        `a header for output '${output}' must be [name, value], not ${inspect(header)}`,
      );
    }
    const [name, value] = header as unknown[];
    if (typeof name !== "string") {
      throw new UsageError(
        `the name of a header for output '${output}' must be a string, not ${inspect(name)}`,
      );
    }
    if (value !== null && !(value instanceof Uint8Array)) {
      throw new UsageError(
        `header '${name}' for output '${output}' must be bytes or null, not ${inspect(value)}`,
      );
    }
    return [name, value === null ? null : Buffer.from(value)];
  });
}

function named(what: unknown): string {
  const has = typeof what === "object" && what !== null && "name" in what;
  return has ? `'${what.name}'` : inspect(what, { depth: 0 });
}
