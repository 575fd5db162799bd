/**
 * The runners of a run, by task: who works, who is asked to end, and who does not.
 *
 * INVARIANT: a task has one handler at a time: its next runner begins when the one before has ended,
 * be it of this run or of one before.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import { Signal, turn } from "../signal.js";
import type { Task } from "../tasks.js";
import type { Clock } from "./clock.js";
import type { Runner } from "./runner.js";

/** The runner of a task's present epoch. */
export interface Post {
  readonly runner: Runner;
  /** The task is to be released once the runner has ended. */
  revoking: boolean;
  /** The runner has ended. */
  done: boolean;
}

/** The latest loop of each task, ended or not. Outlives runs, as handlers may. */
export type Loops = Map<string, Promise<void>>;

/** Tells code whether it runs in a handler, and of which runner. */
const within = new AsyncLocalStorage<Runner>();

export class Crew {
  readonly #loops: Loops;
  readonly #posts = new Map<string, Post>();
  /** The runners that have not ended, also of epochs that are over. */
  readonly #alive = new Map<Runner, Promise<void>>();
  readonly #killed = new Signal();

  constructor(loops: Loops) {
    this.#loops = loops;
  }

  /** How many have not ended. */
  get alive(): number {
    return this.#alive.size;
  }

  get killed(): boolean {
    return this.#killed.fired;
  }

  /** Whether who asks is a handler of this run, or was started by one that goes on. */
  get working(): boolean {
    const runner = within.getStore();
    return runner?.inside === true && this.#alive.has(runner);
  }

  /** The runners of epochs that go on. */
  get runners(): readonly Runner[] {
    return Array.from(this.#posts.values(), ({ runner }) => runner);
  }

  /** The post of a task, whatever its epoch. */
  at(name: string): Post | undefined {
    return this.#posts.get(name);
  }

  /** The post of a task epoch. */
  of(task: Task): Post | undefined {
    const post = this.#posts.get(task.name);
    return post?.runner.task === task ? post : undefined;
  }

  /** Let a runner begin; ended is told when it has. */
  begin(runner: Runner, ended: (post: Post) => void): void {
    const { name } = runner.task;
    const post: Post = { runner, revoking: false, done: false };
    this.#posts.set(name, post);
    const before = this.#loops.get(name);
    const run = within
      .run(runner, () => runner.run(before))
      .then(() => {
        post.done = true;
        this.#alive.delete(runner);
        ended(post);
      });
    // A runner that has not begun does not wait for the handler before it; the one behind it does.
    const both = run.then(() => before);
    const loop = both.then(() => {
      if (this.#loops.get(name) === loop) {
        this.#loops.delete(name);
      }
    });
    this.#loops.set(name, loop);
    this.#alive.set(runner, run);
  }

  /** Forget a post; false when it is not that of its task any more. */
  leave({ runner }: Post): boolean {
    const found = this.of(runner.task) !== undefined;
    if (found) {
      this.#posts.delete(runner.task.name);
    }
    return found;
  }

  /** Have all end. */
  end(): void {
    for (const runner of this.runners) {
      runner.end();
    }
  }

  /** Wait until all have ended, but not for longer. */
  async ended(clock: Clock, timeoutMs: number): Promise<void> {
    if (this.alive === 0 || this.killed) {
      return;
    }
    if (timeoutMs === 0) {
      await turn();
      return;
    }
    const expired = new Signal();
    const timer = clock.at(clock.now() + timeoutMs, () => expired.fire());
    const all = Promise.all(this.#alive.values());
    await Promise.race([all, expired.wait(), this.#killed.wait()]);
    timer.cancel();
  }

  /** Nothing that they do counts any more. */
  kill(): void {
    this.#killed.fire();
    for (const runner of this.#alive.keys()) {
      runner.kill();
    }
  }
}
