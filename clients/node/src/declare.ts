/** What a worker declares: sets of sources and tables, global tables, outputs. Pure. */

import { Code } from "./codes.js";
import { UsageError } from "./errors.js";

/**
 * A table of a set. With sourceTopic it is read-only: its truth is a topic that others write,
 * partitioned like the set's sources. Else this worker writes it, and its truth is the changelog,
 * `<group>-<name>-changelog` unless it is named; a missing one is created.
 */
export interface TableSpec {
  readonly name: string;
  readonly changelog?: string;
  readonly sourceTopic?: string;
  /** Outside of a set: the topics that it is kept with; without them those with its partitions. */
  readonly sources?: readonly string[];
}

/** A read-only table of which this worker holds every partition. */
export interface GlobalSpec {
  readonly name: string;
  readonly topic: string;
}

/**
 * Source topics that are read together, and the tables kept with them: one task per partition. All
 * their topics have the same number of partitions; a task sees the rows of its partition only.
 */
export interface SetSpec {
  readonly name: string;
  readonly sources: readonly string[];
  /** A plain string is a table that this worker writes. */
  readonly tables?: readonly (TableSpec | string)[];
}

/** What a worker reads, keeps and writes. sources and tables stand in place of sets. */
export interface Declarations {
  readonly sets?: readonly SetSpec[];
  readonly sources?: readonly string[];
  readonly tables?: readonly (TableSpec | string)[];
  readonly globals?: readonly GlobalSpec[];
  readonly outputs?: readonly string[];
  /** The consumer group, unless the sidecar's group_id overrules it. */
  readonly group?: string;
}

/** All of it, checked for what can be seen without Kafka, as hello carries it. */
export interface Declaration {
  readonly sets: readonly {
    readonly name: string;
    readonly sources: readonly string[];
    readonly tables: readonly TableSpec[];
  }[];
  readonly sources: readonly string[];
  readonly tables: readonly TableSpec[];
  readonly globals: readonly GlobalSpec[];
  readonly outputs: readonly string[];
  readonly group: string;
}

const NAME = /^[A-Za-z0-9._-]{1,249}$/; // what Kafka takes as the name of a topic

/** Turn what the user wrote into what hello carries. Throws UsageError in one sentence. */
export function declare(given: Declarations): Declaration {
  const { sets = [], sources = [], tables = [], globals = [], outputs = [], group = "" } = given;
  for (const [what, list] of Object.entries({ sets, sources, tables, globals, outputs })) {
    if (!Array.isArray(list)) {
      throw bad(`${what} is ${JSON.stringify(list)}; give an array`);
    }
  }
  if (sets.length > 0 && sources.length + tables.length > 0) {
    throw bad("there are sets and also sources or tables outside of them; use one or the other");
  }
  if (tables.length > 0 && sources.length === 0) {
    throw bad("tables are declared, but no sources; name the topics that they are kept with");
  }
  for (const each of sets) {
    if (!Array.isArray(each.sources) || each.sources.length === 0) {
      throw bad(`set '${each.name}' needs an array of one or more source topics`);
    }
  }
  const made: Declaration = {
    sets: sets.map((each) => ({
      name: each.name,
      sources: [...each.sources],
      tables: (each.tables ?? []).map(ofSet),
    })),
    sources: [...sources],
    tables: tables.map((each) => flat(each, sources)),
    globals: globals.map(({ name, topic }) => ({ name, topic })),
    outputs: [...outputs],
    group,
  };
  check(made);
  return made;
}

function check(made: Declaration): void {
  const every = [...made.sets.flatMap((each) => each.tables), ...made.tables];
  const topics = [...made.sets.flatMap((each) => each.sources), ...made.sources];
  const names = [
    ...[...made.sets, ...every, ...made.globals].map((each) => each.name),
    ...topics,
    ...every
      .flatMap(({ changelog, sourceTopic }) => [changelog, sourceTopic])
      .filter((each) => each !== undefined),
    ...made.globals.map((each) => each.topic),
    ...made.outputs,
  ];
  for (const name of names) {
    if (typeof name !== "string" || !NAME.test(name)) {
      throw bad(`'${name}' is no name; use 1 to 249 letters, digits, dots, _ and -`);
    }
  }
  once("set or global table", [...made.sets, ...made.globals]);
  once(
    "source topic",
    topics.map((name) => ({ name })),
  );
  once("table", [...every, ...made.globals]);
  once(
    "output",
    made.outputs.map((name) => ({ name })),
  );
}

function ofSet(table: TableSpec | string): TableSpec {
  const made = plain(table);
  if (made.sources !== undefined) {
    throw bad(`table '${made.name}' of a set names sources; the set has them already`);
  }
  return made;
}

function flat(table: TableSpec | string, sources: readonly string[]): TableSpec {
  const made = plain(table);
  const strange = made.sources?.find((each) => !sources.includes(each));
  if (strange !== undefined) {
    throw bad(`table '${made.name}' is kept with '${strange}', which is not in sources`);
  }
  return made;
}

function plain(table: TableSpec | string): TableSpec {
  if (typeof table === "string") {
    return { name: table };
  }
  const { name, changelog, sourceTopic, sources } = table;
  if (changelog !== undefined && sourceTopic !== undefined) {
    throw bad(`table '${name}' has a changelog and a sourceTopic; give one of the two`);
  }
  return {
    name,
    ...(changelog === undefined ? {} : { changelog }),
    ...(sourceTopic === undefined ? {} : { sourceTopic }),
    ...(sources === undefined ? {} : { sources: [...sources] }),
  };
}

function once(what: string, all: readonly { readonly name: string }[]): void {
  const seen = new Set<string>();
  for (const { name } of all) {
    if (seen.has(name)) {
      throw bad(`the ${what} '${name}' is declared twice; declare it once`);
    }
    seen.add(name);
  }
}

function bad(text: string): UsageError {
  return new UsageError(text, Code.BadDeclaration);
}
