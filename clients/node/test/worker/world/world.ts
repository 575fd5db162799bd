/**
 * A random world: a worker at a sidecar in memory, and everything that can happen.
 *
 * Everything is drawn from one seed, and time is made up: a run is the same each time, and no second
 * of it is waited for. In Node nothing ends a handler, so those of a worker that was killed go on.
 */

import { Connection } from "../../../src/connection.js";
import type { Dial } from "../../../src/dial.js";
import type { Clock as WireClock } from "../../../src/signal.js";
import { turn } from "../../../src/signal.js";
import { pipe } from "../../../src/testing/pipe.js";
import { ManualClock } from "../../../src/testing/sim/clock.js";
import { ears, PipeLink } from "../../../src/testing/sim/memory.js";
import { Session } from "../../../src/testing/sim/session.js";
import { Sidecar } from "../../../src/testing/sim/sidecar.js";
import { inside } from "../../../src/worker/inside.js";
import { HandlerFailed } from "../../../src/worker/policy.js";
import type { Runtime } from "../../../src/worker/runtime.js";
import { Random } from "../../random.js";
import { App, BASE } from "./app.js";
import { Check, KeptStores, Wrong } from "./check.js";
import { Dealer } from "./dealer.js";
import { KINDS, Model, type Op, type Plan, passesOver } from "./model.js";

/** Made-up time within which a calm world comes to its end, for each step before. */
const CALM_MS = 1000;
/** Turns of the event loop in which no time passes. */
const TURNS = 3;

interface Life {
  readonly runtime: Runtime;
  over: boolean;
  error: unknown;
}

export class World {
  readonly rng: Random;
  readonly app: App;
  readonly sidecar: Sidecar;
  readonly check: Check;
  readonly #dealer: Dealer;
  readonly #clock = new ManualClock();
  readonly #model = new Model();
  readonly #plans: readonly Plan[];
  readonly #partitions: number;
  readonly #intervalMs: number;
  readonly #flaky: number;
  /** Topics of upstream tables. */
  readonly #upstream: string[];
  #calm = false;
  #stores: KeptStores;
  #life: Life | null = null;
  #number = 0;

  constructor(seed: number) {
    const rng = new Random(seed);
    this.rng = rng;
    const names = rng.pick([["a"], ["a", "b"], ["a", "b", "c"], ["a", "c"]]);
    this.#plans = names.map((name) => ({
      name,
      set: name === "c" ? "c" : "a",
      each: rng.next() < 0.6,
      sync: rng.next() < 0.3,
      policy: rng.pick(["stop", "skip", "deadLetter"] as const),
    }));
    this.#partitions = 1 + rng.below(4);
    this.app = new App(rng, this.#plans, this.#model, this.#sleep);
    const window = rng.pick([300, 2000, 1 << 20]);
    this.sidecar = new Sidecar({
      limits: {
        maxFrame: 1 << 20,
        maxControl: 1 << 20,
        maxCommitBytes: rng.pick([3000, 16 << 20]),
        maxOutstandingCommits: 1 + rng.below(2),
      },
      credit: { connection: window * 2, stream: window },
      partitions: this.#partitions,
    });
    const sets = this.#plans.map(({ set }) => set);
    this.#dealer = new Dealer(this.sidecar, rng, sets);
    this.#intervalMs = rng.pick([0, 10, 100, 1000]);
    this.#flaky = rng.pick([0, 0, 0.002]);
    this.#stores = new KeptStores(this.#fails);
    const { kafka } = this.sidecar;
    this.check = new Check(kafka, this.#model, this.#plans, this.#partitions);
    this.#upstream = ["all", ...new Set(sets.map((set) => `names-${set}`))];
    for (let p = 0; p < this.#partitions; p++) {
      for (const topic of this.#upstream) {
        for (const key of BASE) {
          this.#put(topic, p, key);
        }
      }
    }
  }

  /** Let things happen, then none any more; the worker must catch up. */
  async live(steps: number): Promise<void> {
    this.#start();
    for (let i = 0; i < steps; i++) {
      await this.#act();
      await this.#step();
    }
    this.#calm = true;
    this.#dealer.calm();
    const end = this.#clock.now() + steps * CALM_MS;
    while (!this.#done()) {
      if (this.#clock.now() > end) {
        throw new Wrong("it is stuck");
      }
      await this.#step();
    }
    await this.#stop(10_000);
    await this.#kill();
    this.check.look(this.#stores, true);
  }

  // -- the worker's life

  #start(): void {
    const outside = { dial: this.#dial, clock: this.#wireClock, random: () => this.rng.next() };
    const options = this.app.worker[inside].options({ url: "ws://127.0.0.1:1", outside });
    const runtime = this.app.worker[inside].runtime({
      connect: () => new Connection(options),
      stores: this.#stores,
      clock: this.#clock,
      commitIntervalMs: this.#intervalMs,
    });
    const life: Life = { runtime, over: false, error: null };
    this.#life = life;
    runtime.run().then(
      () => {
        life.over = true;
      },
      (error: unknown) => {
        life.over = true;
        life.error = error;
      },
    );
  }

  readonly #dial: Dial = async (_attempt, listener) => {
    const [ours, theirs] = pipe();
    const session = new Session(this.sidecar, new PipeLink(ours));
    this.sidecar.session = session;
    ours.listen(ears(session));
    theirs.listen(listener);
    return theirs;
  };

  readonly #wireClock: WireClock = {
    now: () => this.#clock.now(),
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        const timer = this.#clock.at(this.#clock.now() + ms, resolve);
        const end = (): void => {
          timer.cancel();
          resolve();
        };
        signal.addEventListener("abort", end, { once: true });
        if (signal.aborted) {
          end();
        }
      }),
  };

  /** End it as a crash does. */
  async #kill(): Promise<void> {
    const life = this.#life;
    this.#life = null;
    this.#cut();
    this.sidecar.session = null;
    life?.runtime.kill();
    for (let turns = 0; life !== null && !life.over; turns++) {
      if (turns > 100) {
        throw new Wrong("kill() has not ended it");
      }
      await turn();
    }
    this.#dealer.forget();
    this.sidecar.handle();
  }

  /** End it as SIGTERM does. */
  async #stop(timeoutMs: number): Promise<void> {
    const life = this.#life;
    if (life === null) {
      return;
    }
    life.runtime.stop(timeoutMs);
    const end = this.#clock.now() + timeoutMs + 5000;
    while (!life.over) {
      if (this.#clock.now() > end) {
        throw new Wrong(`stop(${timeoutMs}) has not ended it`);
      }
      this.#turn();
      await this.#pass(1);
    }
    this.#ended(life);
  }

  /** The worker has ended by itself. */
  #ended({ error }: Life): void {
    if (error instanceof HandlerFailed) {
      for (const { topic, op } of this.#model.ops) {
        if (!this.#plans.some((plan) => plan.name === topic && passesOver(plan, op))) {
          this.app.forgiven.add(op.id);
        }
      }
    } else if (error !== null) {
      throw error;
    }
  }

  #cut(): void {
    this.sidecar.session?.finish(0);
    this.sidecar.session?.link.cut();
  }

  // -- time

  readonly #sleep = (ms: number): Promise<void> =>
    ms === 0
      ? turn()
      : new Promise((resolve) => void this.#clock.at(this.#clock.now() + ms, resolve));

  async #pass(ms: number): Promise<void> {
    const to = this.#clock.now() + ms;
    do {
      for (let i = 0; i < TURNS; i++) {
        await turn();
      }
    } while (this.#clock.move(to));
  }

  // -- what happens

  readonly #fails = (): boolean => !this.#calm && this.#flaky > 0 && this.rng.next() < this.#flaky;

  #put(topic: string, partition: number, key: string): void {
    this.#number += 1;
    const value = Buffer.alloc(8);
    value.writeBigInt64BE(BigInt(this.#number));
    this.sidecar.kafka.log(topic, partition).append([{ key: Buffer.from(key), value }]);
  }

  /** Somebody writes source records. */
  #write(): void {
    const { rng } = this;
    const { name } = rng.pick(this.#plans);
    const p = rng.below(this.#partitions);
    const log = this.sidecar.kafka.log(name, p);
    for (let left = rng.pick([1, 1, 3, 8]); left > 0; left--) {
      if (rng.next() < 0.1) {
        log.end += 1 + rng.below(3); // markers, or compacted
      }
      this.#number += 1;
      const id = this.#number;
      const said: Op = { kind: rng.pick(KINDS), id };
      const key = rng.pick(["w", "x", "y", "z"]);
      const tombstone = rng.next() < 0.03;
      const op = tombstone ? { kind: "noop", id } : said;
      this.#model.append(name, p, { offset: log.end, key, op });
      const value = tombstone ? null : Buffer.from(`${op.kind} ${id}`);
      log.append([{ key: Buffer.from(key), value }]);
    }
  }

  /** One thing happens, or none. */
  async #act(): Promise<void> {
    const { rng, sidecar } = this;
    const { session } = sidecar;
    const what = rng.next();
    if (what < 0.3) {
      this.#write();
    } else if (what < 0.4) {
      const topic = rng.pick(this.#upstream);
      this.#put(topic, rng.below(this.#partitions), rng.pick([...BASE, "p", "q"]));
    } else if (what < 0.42) {
      await this.#kill();
      this.#restart();
    } else if (what < 0.44 && this.#life?.over === false) {
      await this.#stop(rng.pick([0, 100, 10_000]));
      await this.#kill();
      this.#restart();
    } else if (what < 0.47) {
      this.#dealer.answerAll();
      sidecar.answersHeld = !sidecar.answersHeld;
    } else if (what < 0.5 && !sidecar.answersHeld) {
      sidecar.fates.push({ ending: "aborted", code: "commit_failed", lands: false });
    } else if (what < 0.52 && !sidecar.answersHeld) {
      const lands = rng.next() < 0.5;
      sidecar.fates.push({ ending: "unknown", code: "kafka_unreachable", lands });
    } else if (what < 0.54 && session?.hello) {
      this.#cut();
    } else if (what < 0.75) {
      this.#dealer.move();
    }
  }

  #restart(): void {
    if (this.rng.next() < 0.5) {
      this.#stores = new KeptStores(this.#fails);
    }
    this.#start();
  }

  /** Handle what was said, go on with everything, let some time pass, look. */
  async #step(): Promise<void> {
    this.#turn();
    await this.#pass(this.rng.pick([0, 0, 0, 1, 20, 300]));
    if (this.#life?.over) {
      this.#ended(this.#life);
      await this.#kill();
      this.#restart();
    }
  }

  #turn(): void {
    this.sidecar.handle();
    this.#dealer.drive();
    this.sidecar.handle();
    const [wrong] = this.app.wrong;
    if (wrong !== undefined) {
      throw new Wrong(wrong);
    }
    this.check.look(this.#stores);
  }

  /** Whether everything that was written is processed. */
  #done(): boolean {
    const { kafka } = this.sidecar;
    return this.#plans.every(({ name }) =>
      Array.from({ length: this.#partitions }, (_, p) => p).every(
        (p) => kafka.position(name, p) >= kafka.log(name, p).end,
      ),
    );
  }
}

/** Live one world to its end. Throws Wrong, Fault, or what the worker has failed with. */
export async function live(seed: number, steps = 60): Promise<World> {
  const world = new World(seed);
  await world.live(steps);
  return world;
}
