/** Whatever happens between records, tables and outputs are as if nothing had. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Context, int, json, str, t, Worker } from "../../src/index.js";
import { TestDriver } from "../../src/testing/index.js";
import { Random } from "../random.js";

const PARTITIONS = 2;
const RUNS = 60;
const EVENTS = [
  "send",
  "many",
  "revoke",
  "lose",
  "restart",
  "abort",
  "unknown",
  "landed",
  "standby",
  "promote",
  "tick",
  "inside",
] as const;
type Step = readonly [event: (typeof EVENTS)[number], partition: number];

/** Counts with both kinds of handlers over two joined topics; what is asked happens inside. */
class Counting {
  readonly driver: TestDriver;
  /** Partitions that are lost inside of the next handler. */
  readonly inside: number[] = [];
  readonly #sent = new Map<string, number[]>();
  /** What the handlers were called with, in order. */
  readonly calls: string[] = [];
  #number = 0;
  readonly #worker = new Worker({ group: "random" });
  readonly #ones = this.#worker.topic("ones", { key: str(), value: int() });
  readonly #twos = this.#worker.topic("twos", { key: str(), value: int() });
  readonly #sums = this.#worker.table("sums", { key: str(), value: int(), default: () => 0 });
  readonly #lists = this.#worker.table("lists", {
    key: str(),
    value: json(t.list(t.int)),
    default: () => [],
  });
  readonly #ticks = this.#worker.table("ticks", { key: str(), value: int(), default: () => 0 });
  readonly #out = this.#worker.output("out", { key: str(), value: int() });

  constructor() {
    const worker = this.#worker;
    const tables = [this.#sums, this.#lists];
    worker.join(this.#ones, this.#twos);
    worker.each(this.#ones, { tables: [...tables, this.#ticks] }, ({ key, value }, ctx) => {
      this.#add(key ?? "", value ?? 0, ctx);
    });
    worker.process(this.#twos, { tables }, async (batch, ctx) => {
      for (const [key, value] of batch.items()) {
        this.#add(key ?? "", value ?? 0, ctx);
        await Promise.resolve();
      }
    });
    worker.every({ seconds: 1, tables: [this.#ticks] }, (ctx) => {
      const rows = ctx.table(this.#ticks);
      const key = `of ${ctx.partition}`;
      rows.set(key, rows.get(key) + 1);
      this.calls.push(`tick ${ctx.partition}`);
    });
    this.driver = new TestDriver(worker, { partitions: PARTITIONS });
  }

  async step([event, partition]: Step): Promise<void> {
    const { driver } = this;
    switch (event) {
      case "send":
        return await driver.send(this.#ones, ...this.#make(partition), { partition });
      case "many": {
        const pairs = [1, 2, 3].map(() => this.#make(partition));
        return await driver.sendMany(this.#twos, pairs, { partition });
      }
      case "abort":
        return driver.abortNextCommit();
      case "unknown":
      case "landed":
        return driver.unknownNextCommit(event === "landed");
      case "inside":
        this.inside.push(partition);
        return;
      case "tick":
        return await driver.advance({ seconds: 1 });
      case "restart":
        return await driver.restart();
      default:
        return await driver[event](partition);
    }
  }

  check(): void {
    const sums = [...this.#sent].map(([key, all]) => [key, all.reduce((sum, n) => sum + n, 0)]);
    assert.deepEqual(sorted(this.driver.table(this.#sums)), sorted(sums));
    const lists = [...this.driver.table(this.#lists)].map(([key, all]) => [key, [...all].sort()]);
    assert.deepEqual(
      sorted(lists),
      sorted([...this.#sent].map(([key, all]) => [key, [...all].sort()])),
    );
    const all = [...this.#sent].flatMap(([key, numbers]) => numbers.map((n) => [key, n]));
    assert.deepEqual(sorted(this.driver.outputs(this.#out)), sorted(all));
  }

  #make(partition: number): [string, number] {
    this.#number += 1;
    const key = `${partition}-${this.#number % 3}`;
    this.#sent.set(key, [...(this.#sent.get(key) ?? []), this.#number]);
    return [key, this.#number];
  }

  #add(key: string, value: number, ctx: Context): void {
    this.calls.push(`${key} ${value}`);
    const sums = ctx.table(this.#sums);
    sums.set(key, sums.get(key) + value);
    ctx.table(this.#lists).get(key).push(value);
    ctx.send(this.#out, { key, value });
    for (const partition of this.inside.splice(0)) {
      void this.driver.lose(partition);
    }
  }
}

function sorted(all: Iterable<unknown>): string[] {
  return Array.from(all, (each) => JSON.stringify(each)).sort();
}

/** Play what a seed says; give what the handlers were called with. */
async function play(seed: number): Promise<string[]> {
  const random = new Random(seed);
  const steps = Array.from(
    { length: 4 + random.below(22) },
    (): Step => [random.pick(EVENTS), random.below(PARTITIONS)],
  );
  const counting = new Counting();
  try {
    for (const step of steps) {
      await counting.step(step);
    }
    for (let partition = 0; partition < PARTITIONS; partition++) {
      await counting.driver.promote(partition);
    }
    counting.check();
    await counting.driver.restart();
    counting.check();
  } catch (error) {
    const said = steps.map((each) => each.join(" ")).join(", ");
    throw new Error(`seed ${seed}: ${said}`, { cause: error });
  } finally {
    await counting.driver[Symbol.asyncDispose]();
  }
  return counting.calls;
}

test("nothing is lost and nothing counts twice", async () => {
  for (let seed = 1; seed <= RUNS; seed++) {
    await play(seed);
  }
});

test("the same is done in the same order", async () => {
  for (let seed = 1; seed <= 5; seed++) {
    const calls = await play(seed);
    assert.ok(calls.length > 0);
    assert.deepEqual(await play(seed), calls);
  }
});
