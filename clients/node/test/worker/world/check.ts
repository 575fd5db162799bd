/** Compares what a world has come to with the model. */

import { isDeepStrictEqual } from "node:util";
import { StoreError } from "../../../src/errors.js";
import { MemoryStore, type Store, type Stores } from "../../../src/stores/index.js";
import type { Task } from "../../../src/tasks.js";
import type { Kafka, Stored } from "../../../src/testing/sim/kafka.js";
import type { Model, Plan } from "./model.js";

/** The worker has broken a promise. */
export class Wrong extends Error {}

/** Fails when it is told to. */
class FlakyStore extends MemoryStore {
  seen: string | null = null;
  readonly #fails: () => boolean;

  constructor(fails: () => boolean) {
    super();
    this.#fails = fails;
  }

  override get(key: string): Buffer | null {
    this.#perhaps();
    return super.get(key);
  }

  override apply(...given: Parameters<MemoryStore["apply"]>): void {
    this.#perhaps();
    super.apply(...given);
  }

  override applyCommit(...given: Parameters<MemoryStore["applyCommit"]>): void {
    this.#perhaps();
    super.applyCommit(...given);
  }

  #perhaps(): void {
    if (this.#fails()) {
      throw new StoreError("the disk is gone");
    }
  }
}

/** Memory by topic and partition; a store that is open may be asked for again. */
export class KeptStores implements Stores {
  readonly all = new Map<string, { topic: string; partition: number; store: FlakyStore }>();
  readonly #fails: () => boolean;

  constructor(fails: () => boolean) {
    this.#fails = fails;
  }

  open({ tables, partition }: Task, table: string): Store {
    if (this.#fails()) {
      throw new StoreError("somebody else has it");
    }
    const topic = tables.get(table)?.topic ?? "";
    const at = `${topic}/${partition}`;
    const found = this.all.get(at) ?? { topic, partition, store: new FlakyStore(this.#fails) };
    this.all.set(at, found);
    return found.store;
  }
}

type Made = [what: string, value: unknown];

/** Looks again at what has changed since it last looked. */
export class Check {
  readonly #kafka: Kafka;
  readonly #model: Model;
  readonly #plans: readonly Plan[];
  readonly #partitions: number;
  readonly #seen = new Map<string, string>();
  /** By task: what was written to outputs. */
  readonly #made = new Map<string, Made[]>();
  #read = 0;

  constructor(kafka: Kafka, model: Model, plans: readonly Plan[], partitions: number) {
    this.#kafka = kafka;
    this.#model = model;
    this.#plans = plans;
    this.#partitions = partitions;
  }

  /** Compare what is in Kafka and in the stores with the model. Throws Wrong. */
  look(stores: KeptStores, thoroughly = false): void {
    this.#readOutputs();
    for (const { name, set } of this.#plans) {
      for (let p = 0; p < this.#partitions; p++) {
        const state = `${this.#kafka.position(name, p)} ${this.#of(set, p).length}`;
        if (thoroughly || this.#seen.get(`${name}/${p}`) !== state) {
          this.#seen.set(`${name}/${p}`, state);
          this.#compare(set, p);
        }
      }
    }
    for (const { topic, partition, store } of stores.all.values()) {
      const mark = store.checkpoint();
      if (mark !== store.seen || thoroughly) {
        store.seen = mark;
        const at = mark === null ? 0 : (this.#kafka.points.get(mark)?.position ?? -1);
        const want = rowsOf(this.#kafka.log(topic, partition).since(0, at));
        same(`the store of ${topic}/${partition} at ${at}`, new Map(store.items()), want);
      }
    }
  }

  #of(set: string, p: number): Made[] {
    const found = this.#made.get(`${set}/${p}`) ?? [];
    this.#made.set(`${set}/${p}`, found);
    return found;
  }

  #readOutputs(): void {
    for (const { task, topic, record } of this.#kafka.outputs.slice(this.#read)) {
      this.#read += 1;
      const [key, value] = [text(record.key), text(record.value)];
      const made = this.#made.get(task) ?? [];
      this.#made.set(task, made);
      if (topic === "complaints") {
        throw new Wrong(`${task}: ${value}`);
      }
      if (topic === "out") {
        made.push([key, JSON.parse(value)]);
      } else {
        const found = new Map(record.headers);
        const where = text(found.get("pillion-topic") ?? null);
        made.push([`dead ${where}`, Number(text(found.get("pillion-offset") ?? null))]);
      }
    }
  }

  #compare(set: string, p: number): void {
    const lists = new Map<string, unknown>();
    const sums = new Map<string, number>();
    const made = (what: string): unknown[] =>
      this.#of(set, p).flatMap(([each, value]) => (each === what ? [value] : []));
    let total = 0;
    for (const plan of this.#plans.filter((plan) => plan.set === set)) {
      const after = this.#model.at(plan, p, this.#kafka.position(plan.name, p));
      for (const [key, list] of after.rows) {
        lists.set(key, list);
      }
      if (after.outputs.length > 0) {
        sums.set(plan.name, after.outputs.length);
        total += after.outputs.length;
        sums.set("total", total);
      }
      same(`${plan.name}/${p} out`, made(plan.name), after.outputs);
      same(`${plan.name}/${p} dead`, made(`dead ${plan.name}`), after.dead);
    }
    const ticks = made("tick");
    same(
      `${set}/${p} ticks`,
      ticks,
      Array.from(ticks, (_, n) => [n + 1]),
    );
    if (ticks.length > 0) {
      sums.set("ticks", ticks.length);
    }
    const logged = (name: string, read: (value: Buffer) => unknown): Map<string, unknown> =>
      new Map(
        Array.from(this.#kafka.log(`g-${name}-${set}-changelog`, p).rows(), ([key, value]) => [
          key,
          read(value),
        ]),
      );
    same(
      `lists-${set}/${p}`,
      logged("lists", (value) => JSON.parse(value.toString())),
      lists,
    );
    same(
      `sums-${set}/${p}`,
      logged("sums", (value) => Number(value.readBigInt64BE())),
      sums,
    );
  }
}

function text(data: Stored["key"]): string {
  return data === null ? "" : Buffer.from(data).toString();
}

function rowsOf(records: readonly Stored[]): Map<string, Buffer> {
  const found = new Map<string, Buffer>();
  for (const { key, value } of records) {
    const at = Buffer.from(key ?? []).toString("latin1");
    if (value === null) {
      found.delete(at);
    } else {
      found.set(at, Buffer.from(value));
    }
  }
  return found;
}

function same(what: string, have: unknown, want: unknown): void {
  if (!isDeepStrictEqual(have, want)) {
    throw new Wrong(`${what}: ${shown(have)}, not ${shown(want)}`);
  }
}

function shown(what: unknown): string {
  return JSON.stringify(what instanceof Map ? [...what] : what);
}
