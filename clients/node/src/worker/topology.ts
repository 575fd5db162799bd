/**
 * The topology that a worker's declarations add up to: sets, tables, globals, outputs. Pure.
 *
 * Topics that join() names, directly or over others, are one set; every other topic is a set of its
 * own. A table belongs to the set whose handlers use it. A set is called after its first topic.
 *
 * Every mistake is a UsageError of one sentence, thrown before anything is connected.
 */

import { type Declaration, declare, type SetSpec, type TableSpec } from "../declare.js";
import { bad, shown } from "./checks.js";
import type { Context } from "./context.js";
import type { DeclaredOutput, DeclaredTable, DeclaredTopic, GlobalTable } from "./declared.js";
import type { DeadLetter, OnError, Told } from "./policy.js";

/** What is called with a batch or a record. Types are those of its topic. */
export type HandlerCall = (what: never, ctx: Context) => unknown;

/** A function of process() or each(). */
export interface Handler {
  readonly name: string;
  readonly topic: DeclaredTopic;
  readonly call: HandlerCall;
  readonly each: boolean;
  readonly tables: readonly DeclaredTable[];
  readonly onError: OnError | undefined;
}

/** A function of every(). */
export interface Ticker {
  readonly name: string;
  readonly call: (ctx: Context) => unknown;
  readonly everyMs: number;
  readonly tables: readonly DeclaredTable[];
  readonly topic: DeclaredTopic | undefined;
}

/** Everything that was declared so far, in order. */
export class Declared {
  readonly group: string | undefined;
  readonly topics: DeclaredTopic[] = [];
  readonly outputs: DeclaredOutput[] = [];
  readonly tables: DeclaredTable[] = [];
  readonly joins: (readonly DeclaredTopic[])[] = [];
  readonly handlers: Handler[] = [];
  readonly tickers: Ticker[] = [];

  constructor(group?: string) {
    this.group = group;
  }
}

/** A table of a set. */
type SetTable = Exclude<DeclaredTable, GlobalTable<unknown, unknown>>;

/** One set: its topics with their handlers, the tables kept with them, what runs by time. */
export interface SetPlan {
  readonly name: string;
  /** By topic. */
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly tables: readonly SetTable[];
  readonly tickers: readonly Ticker[];
}

/** What a worker is made of. */
export interface Topology {
  readonly sets: ReadonlyMap<string, SetPlan>;
  readonly globals: readonly GlobalTable<unknown, unknown>[];
  readonly outputs: readonly DeclaredOutput[];
  /** What the sidecar is told of it. */
  readonly declaration: Declaration;
}

/** What holds for every task of a worker. */
export interface Settings {
  /** 0: after each batch. */
  readonly commitIntervalMs: number;
  readonly onError: OnError;
  readonly outputs: readonly DeclaredOutput[];
  readonly told: Told;
}

interface Draft {
  readonly name: string;
  readonly handlers: Map<string, Handler>;
  readonly tables: SetTable[];
  readonly tickers: Ticker[];
}

/** The first of the topics that each is joined with. */
type Roots = ReadonlyMap<DeclaredTopic, DeclaredTopic>;
type Drafts = ReadonlyMap<DeclaredTopic, Draft>;

/** Add the declarations up. Throws UsageError in one sentence. */
export function topology(declared: Declared): Topology {
  checkHandlers(declared);
  checkTables(declared);
  checkTopics(declared);
  const roots = rootsOf(declared);
  const drafts = draftsOf(declared, roots);
  const globals = declared.tables.filter(isGlobal);
  placeTables(declared, drafts, roots);
  placeTickers(declared, drafts, roots, globals);
  const taken = new Set(globals.map(({ name }) => name));
  const plans = Array.from(drafts.values(), (draft) =>
    // A global table has the topic's name.
    taken.has(draft.name) ? { ...draft, name: `${draft.name}-set` } : draft,
  );
  const declaration = declare({
    sets: plans.map(setOf),
    globals: globals.map(({ name, topic }) => ({ name, topic })),
    outputs: declared.outputs.map(({ name }) => name),
    ...(declared.group === undefined ? {} : { group: declared.group }),
  });
  const sets = new Map(plans.map((plan) => [plan.name, plan]));
  return { sets, globals, outputs: declared.outputs, declaration };
}

/** Refuse dead letters that go to an output of another worker. */
export function checkOutput(
  { outputs }: Pick<Settings, "outputs">,
  policy: DeadLetter,
  who: string,
): void {
  if (!outputs.includes(policy.output)) {
    bad(
      `the dead letters of ${who} go to ${shown(policy.output)}, which output() of this worker did not make`,
    );
  }
}

function checkHandlers(declared: Declared): void {
  const handled = new Map<DeclaredTopic, Handler>();
  for (const handler of declared.handlers) {
    const { name, topic, onError } = handler;
    if (!declared.topics.includes(topic)) {
      bad(`${name} handles ${shown(topic)}, which topic() of this worker did not make`);
    }
    const other = handled.get(topic);
    if (other !== undefined) {
      const who = other.name === name ? "" : `, ${other.name} and ${name}`;
      bad(`topic '${topic.name}' has two handlers${who}; let one call the other`);
    }
    handled.set(topic, handler);
    if (typeof onError === "object" && onError.verdict === "deadLetter") {
      checkOutput(declared, onError, name);
    }
  }
}

function checkTables(declared: Declared): void {
  for (const { name, tables } of [...declared.handlers, ...declared.tickers]) {
    for (const table of tables) {
      if (!declared.tables.includes(table)) {
        bad(`${name} uses ${shown(table)}, which is no table of this worker; make it with table()`);
      }
    }
  }
}

function checkTopics(declared: Declared): void {
  for (const topic of declared.topics) {
    if (!declared.handlers.some((handler) => handler.topic === topic)) {
      const how = "give it one with process() or each(), or leave it out";
      bad(`topic '${topic.name}' has no handler; ${how}`);
    }
  }
  if (declared.topics.length === 0) {
    bad("there is no topic; name one with topic() and give it a handler");
  }
}

function rootsOf(declared: Declared): Roots {
  const joined = new Map(declared.topics.map((topic) => [topic, [topic]]));
  const groupOf = (topic: DeclaredTopic) =>
    joined.get(topic) ??
    bad(`join() names ${shown(topic)}, which topic() of this worker did not make`);
  for (const [first, ...others] of declared.joins.map((topics) => topics.map(groupOf))) {
    let one = first ?? [];
    for (const other of others) {
      // Read anew: a join before this one may have moved either.
      const two = groupOf(other[0] as DeclaredTopic);
      one = groupOf(one[0] as DeclaredTopic);
      if (one !== two) {
        one.push(...two);
        for (const topic of two) {
          joined.set(topic, one);
        }
      }
    }
  }
  const first = (group: readonly DeclaredTopic[]) =>
    declared.topics.find((topic) => group.includes(topic)) as DeclaredTopic;
  return new Map(Array.from(joined, ([topic, group]) => [topic, first(group)]));
}

function draftsOf(declared: Declared, roots: Roots): Drafts {
  const drafts = new Map<DeclaredTopic, Draft>();
  for (const topic of declared.topics) {
    const root = roots.get(topic) as DeclaredTopic;
    const draft = drafts.get(root) ?? {
      name: root.name,
      handlers: new Map<string, Handler>(),
      tables: [],
      tickers: [],
    };
    drafts.set(root, draft);
    const handler = declared.handlers.find((each) => each.topic === topic);
    draft.handlers.set(topic.name, handler as Handler);
  }
  return drafts;
}

function draftOf(drafts: Drafts, roots: Roots, topic: DeclaredTopic): Draft {
  return drafts.get(roots.get(topic) as DeclaredTopic) as Draft;
}

function placeTables(declared: Declared, drafts: Drafts, roots: Roots): void {
  for (const table of declared.tables) {
    const [first, ...others] = declared.handlers.filter(({ tables }) => tables.includes(table));
    if (first === undefined && !declared.tickers.some(({ tables }) => tables.includes(table))) {
      bad(`table '${table.name}' is used by no handler; name it in tables: [...] of one`);
    }
    if (isGlobal(table) || first === undefined) {
      continue; // what only runs by time places its tables itself
    }
    for (const { topic } of others) {
      if (roots.get(topic) !== roots.get(first.topic)) {
        bad(
          `table '${table.name}' is used with the topics '${first.topic.name}' and ` +
            `'${topic.name}', which are two sets; read them together with join(), or keep a ` +
            "table for each",
        );
      }
    }
    draftOf(drafts, roots, first.topic).tables.push(table);
  }
}

function placeTickers(
  declared: Declared,
  drafts: Drafts,
  roots: Roots,
  globals: readonly GlobalTable<unknown, unknown>[],
): void {
  const all = [...drafts.values()];
  for (const ticker of declared.tickers) {
    const { name, topic, tables } = ticker;
    if (!(ticker.everyMs > 0)) {
      bad(`every() of ${name} needs a time of more than 0`);
    }
    if (topic !== undefined && !roots.has(topic)) {
      bad(`every() of ${name} names ${shown(topic)}, which topic() of this worker did not make`);
    }
    const named = new Set(all.filter((draft) => draft.tables.some((t) => tables.includes(t))));
    if (topic !== undefined) {
      named.add(draftOf(drafts, roots, topic));
    }
    const [draft, more] = named.size === 0 && all.length === 1 ? all : named;
    if (draft === undefined || more !== undefined) {
      bad(
        `every() of ${name} runs once per task of a set, and there are ` +
          `${named.size || all.length} sets; name the topic or tables of one`,
      );
    }
    for (const table of tables) {
      if (!isGlobal(table) && !all.some((each) => each.tables.includes(table))) {
        draft.tables.push(table);
      }
    }
    const its = tables.length > 0 ? tables : [...draft.tables, ...globals];
    draft.tickers.push({ ...ticker, tables: its });
  }
}

function isGlobal(table: DeclaredTable): table is GlobalTable<unknown, unknown> {
  return table.kind === "globalTable";
}

function setOf(plan: SetPlan): SetSpec {
  return { name: plan.name, sources: [...plan.handlers.keys()], tables: plan.tables.map(tableOf) };
}

function tableOf(table: SetTable): TableSpec {
  const { name } = table;
  if (table.kind === "sourceTable") {
    return { name, sourceTopic: table.topic };
  }
  return table.changelog === undefined ? { name } : { name, changelog: table.changelog };
}
