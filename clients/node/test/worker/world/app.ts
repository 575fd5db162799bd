/** The worker of a world: sets of topics that share tables; handlers that watch what they see. */

import { isDeepStrictEqual } from "node:util";
import {
  type Batch,
  bytes,
  type Context,
  deadLetter,
  type GlobalTable,
  int,
  json,
  type KafkaRecord,
  type OnError,
  type Output,
  type SourceTable,
  skip,
  stop,
  str,
  type Table,
  type Topic,
  t,
  Worker,
} from "../../../src/index.js";
import type { Random } from "../../random.js";
import { act, type Lists, type Model, type Op, opOf, type Plan } from "./model.js";

/** Rows that upstream tables always have. */
export const BASE: readonly string[] = ["base0", "base1", "base2"];

type Steps = Generator<undefined, void, undefined>;
/** Lets time pass. */
export type Sleep = (ms: number) => Promise<void>;

interface Tables {
  readonly lists: Table<string, number[], never>;
  readonly sums: Table<string, number, never>;
  readonly names: SourceTable<string, number>;
}

export class App {
  readonly worker: Worker;
  /** "bad" and "fail" records that are no trouble any more. */
  readonly forgiven = new Set<number>();
  /** What handlers have seen that must not be. */
  readonly wrong: string[] = [];
  /** How many handlers of each task are at work. */
  readonly inside = new Map<string, number>();
  calls = 0;
  readonly #rng: Random;
  readonly #model: Model;
  readonly #sleep: Sleep;
  readonly #out: Output<string, number[]>;
  readonly #complaints: Output<string, string>;
  readonly #dead: Output<Uint8Array, Uint8Array>;
  readonly #everywhere: GlobalTable<string, number>;
  readonly #tables = new Map<string, Tables>();

  constructor(rng: Random, plans: readonly Plan[], model: Model, sleep: Sleep) {
    this.#rng = rng;
    this.#model = model;
    this.#sleep = sleep;
    const worker = new Worker({ group: "g", window: rng.pick([200, 1000, 1 << 20]) });
    this.worker = worker;
    const lists = json(t.list(t.int));
    this.#out = worker.output("out", { key: str(), value: lists });
    this.#complaints = worker.output("complaints", { key: str(), value: str() });
    this.#dead = worker.output("dead", { key: bytes(), value: bytes() });
    this.#everywhere = worker.globalTable("all", { key: str(), value: int() });
    const topics = new Map<string, Topic<string, Op>[]>();
    for (const plan of plans) {
      const { name, set } = plan;
      const value = {
        mutable: false,
        encode: ({ kind, id }: Op) => Buffer.from(`${kind} ${id}`),
        decode: (data: Buffer) => this.#decode(data),
      };
      const topic = worker.topic(name, { key: str(), value });
      topics.set(set, [...(topics.get(set) ?? []), topic]);
      if (!this.#tables.has(set)) {
        this.#tables.set(set, {
          lists: worker.table(`lists-${set}`, { key: str(), value: lists, default: () => [] }),
          sums: worker.table(`sums-${set}`, { key: str(), value: int(), default: () => 0 }),
          names: worker.sourceTable(`names-${set}`, { key: str(), value: int() }),
        });
      }
      this.#handle(plan, topic);
    }
    for (const [set, joined] of topics) {
      worker.join(...joined);
      this.#tick(set);
    }
  }

  #decode(data: Buffer): Op {
    const op = opOf(data);
    if (op.kind === "bad" && !this.forgiven.has(op.id)) {
      throw new RangeError("a bad one");
    }
    return op;
  }

  #of(set: string): Tables {
    return this.#tables.get(set) as Tables;
  }

  #handle(plan: Plan, topic: Topic<string, Op>): void {
    const { lists, sums, names } = this.#of(plan.set);
    const policies: Record<Plan["policy"], OnError> = {
      stop: stop(),
      skip: skip(),
      deadLetter: deadLetter(this.#dead),
    };
    const tables = [lists, sums, names, this.#everywhere];
    const options = { tables, onError: policies[plan.policy] };
    const self = this;
    if (plan.each) {
      const one = (record: KafkaRecord<string, Op>, ctx: Context) =>
        this.#record(plan, record, ctx);
      this.worker.each(topic, options, this.#wrapped(plan.set, one, plan.sync));
    } else {
      const all = function* (batch: Batch<string, Op>, ctx: Context): Steps {
        for (const record of batch) {
          yield* self.#record(plan, record, ctx);
        }
      };
      this.worker.process(topic, options, this.#wrapped(plan.set, all, plan.sync));
    }
  }

  #tick(set: string): void {
    const { lists, sums, names } = this.#of(set);
    const out = this.#out;
    const steps = function* (_: null, ctx: Context): Steps {
      const rows = ctx.table(sums);
      rows.set("ticks", rows.get("ticks") + 1);
      yield;
      ctx.send(out, { key: "tick", value: [rows.get("ticks")] });
    };
    const seconds = this.#rng.pick([0.1, 0.3, 2]);
    const tables = [lists, sums, names, this.#everywhere];
    const call = this.#wrapped(set, steps, this.#rng.next() < 0.5);
    this.worker.every({ seconds, tables }, (ctx) => call(null, ctx));
  }

  #wrapped<W>(
    set: string,
    steps: (work: W, ctx: Context) => Steps,
    sync: boolean,
  ): (work: W, ctx: Context) => unknown {
    const watched = (work: W, ctx: Context) => this.#watched(set, steps(work, ctx), ctx);
    if (sync) {
      return (work, ctx) => {
        for (const _ of watched(work, ctx)) {
          // no time passes here
        }
      };
    }
    return async (work, ctx) => {
      for (const _ of watched(work, ctx)) {
        await this.#sleep(this.#rng.pick([0, 0, 3, 50, 400]));
      }
    };
  }

  *#watched(set: string, steps: Steps, ctx: Context): Steps {
    const { task } = ctx;
    this.calls += 1;
    const inside = (this.inside.get(task) ?? 0) + 1;
    this.inside.set(task, inside);
    if (inside > 1) {
      this.wrong.push(`two handlers of ${task} at a time`);
    }
    try {
      const seen = this.#upstream(set, ctx, "begins");
      for (const _ of steps) {
        yield;
        if (this.#rng.next() < 0.3) {
          const now = this.#upstream(set, ctx, "goes on");
          if (!isDeepStrictEqual(now, seen)) {
            this.#complain(ctx, "a source table has changed under a handler");
          }
        }
      }
    } finally {
      this.inside.set(task, (this.inside.get(task) ?? 0) - 1);
    }
  }

  #upstream(set: string, ctx: Context, when: string): Map<string, number> {
    const names = new Map(ctx.table(this.#of(set).names));
    for (const rows of [names, new Map(ctx.table(this.#everywhere))]) {
      if (!BASE.every((key) => rows.has(key))) {
        this.#complain(ctx, `a handler ${when} on a table that is not whole`);
      }
    }
    return names;
  }

  /** Say with the unit itself that it is wrong: nobody minds unless it is committed. */
  #complain(ctx: Context, why: string): void {
    ctx.send(this.#complaints, { key: "wrong", value: why });
  }

  *#record(plan: Plan, record: KafkaRecord<string, Op>, ctx: Context): Steps {
    const tables = this.#of(plan.set);
    const rows: Lists = ctx.table(tables.lists);
    const sums = ctx.table(tables.sums);
    const { offset } = record;
    const mine = `${plan.name}:`;
    if (this.#rng.next() < 0.3) {
      const have = new Map([...rows.entries()].filter(([key]) => key.startsWith(mine)));
      const want = new Map(this.#model.at(plan, ctx.partition, offset).rows);
      if (!isDeepStrictEqual(have, want)) {
        const said = JSON.stringify([[...have], [...want]]);
        this.#complain(ctx, `${plan.name} ${offset}: have and want ${said}`);
      }
    }
    const op = record.value ?? { kind: "noop", id: 0 };
    const key = mine + (record.key ?? "");
    yield;
    yield* act(op, mine, key, offset, rows);
    sums.set(plan.name, sums.get(plan.name) + 1);
    const length = rows.has(key) ? rows.get(key).length : 0;
    ctx.send(this.#out, { key: plan.name, value: [offset, length] });
    yield;
    sums.set("total", sums.get("total") + 1);
    if (op.kind === "fail" && !this.forgiven.has(op.id)) {
      throw new RangeError("it fails");
    }
  }
}
