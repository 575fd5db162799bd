/**
 * What each event means for the runners of tasks: who begins, who gets it, who is to end.
 *
 * Flow: records go to their task's runner, one batch at a time; while a runner is busy, what would
 * change its tables waits in the queue (and with it the sidecar, by credit), but for revoking and
 * lost. Nothing here waits.
 *
 * INVARIANT: while a handler runs, nothing but itself changes the tables of its task.
 */

import { ProtocolError } from "../errors.js";
import type { Event } from "../events.js";
import type { Tables } from "../tables.js";
import type { Task } from "../tasks.js";
import { asError } from "../thrown.js";
import type { Clock } from "./clock.js";
import type { Crew, Post } from "./crew.js";
import type { Logger } from "./logging.js";
import { Runner } from "./runner.js";
import type { Settings, Topology } from "./topology.js";
import type { Whole } from "./whole.js";
import { Work } from "./work.js";

/** What a foreman is made with. */
export interface Site {
  readonly topology: Topology;
  readonly settings: Settings;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly tables: Tables;
  readonly crew: Crew;
  readonly whole: Whole;
  /** Whether the run is about to end. */
  ending(): boolean;
  /** Is told what ends the run. */
  failed(failure: Error): void;
}

export class Foreman {
  readonly #at: Site;

  constructor(site: Site) {
    this.#at = site;
  }

  /** Whether an event has to wait for a handler that runs. */
  readonly busy = (event: Event): boolean => {
    const { crew, whole } = this.#at;
    switch (event.type) {
      case "revoking":
      case "lost":
      case "assigned":
      case "waiting":
      case "restoring":
        return false;
      case "reset":
        if (event.task.role === "global") {
          return crew.runners.some(({ busy }) => busy);
        }
        break;
      case "records":
        if (!whole.of(event.task)) {
          return true;
        }
        break;
      case "restore":
      case "restored":
      case "promoted":
      case "demoted":
        break;
    }
    return crew.at(event.task.name)?.runner.busy ?? false;
  };

  /** Act on an event that does not have to wait. */
  handle(event: Event): void {
    const { tables, crew, whole } = this.#at;
    whole.take(event, tables.conn);
    switch (event.type) {
      case "restored":
        for (const runner of crew.runners) {
          runner.wake();
        }
        this.#begin(event.task);
        break;
      case "promoted":
        this.#lose(event.was);
        this.#begin(event.task);
        break;
      case "demoted":
        this.#lose(event.was);
        break;
      case "records": {
        const post = crew.of(event.task);
        if (post?.done === false) {
          post.runner.give(event.batch);
        }
        break;
      }
      case "revoking":
        this.#revoke(event.task);
        break;
      case "lost":
        this.#lose(event.task);
        break;
      case "reset":
        crew.of(event.task)?.runner.forget();
        break;
      case "assigned":
      case "restore":
      case "restoring":
      case "waiting":
        break;
    }
  }

  #begin(task: Task): void {
    const { tables, crew, whole, settings, clock, logger } = this.#at;
    const again = crew.of(task) !== undefined; // whole once more, after a reset
    if (task.role !== "active" || again || !tables.conn.lives(task)) {
      return;
    }
    const plan = this.#at.topology.sets.get(task.set);
    if (plan === undefined) {
      throw new ProtocolError(
        `the sidecar assigns a task of the set '${task.set}', which there is none of`,
      );
    }
    const views = whole.opened(tables, task);
    if (views === null) {
      return; // a store has failed; lost is on its way
    }
    const runner = new Runner({
      task,
      plan,
      work: new Work(task, views, (table) => whole.globals(tables, table.name)),
      tables,
      settings,
      clock,
      logger,
      changed: () => this.#changed(),
      whole: () => whole.of(task),
    });
    if (this.#at.ending()) {
      runner.end();
    }
    crew.begin(runner, (post) => this.#ended(post));
  }

  #revoke(task: Task): void {
    const { tables, crew, whole } = this.#at;
    const post = crew.of(task);
    if (post === undefined || post.done) {
      whole.forget(task);
      tables.release(task);
      return;
    }
    post.revoking = true;
    post.runner.revoke();
  }

  #lose(task: Task): void {
    const { crew } = this.#at;
    const post = crew.of(task);
    if (post !== undefined) {
      post.runner.lost();
      crew.leave(post);
    }
  }

  #ended(post: Post): void {
    const { tables, crew, whole } = this.#at;
    const { task, failure } = post.runner;
    if (failure !== null) {
      this.#at.failed(failure);
      return;
    }
    if (post.revoking && crew.leave(post)) {
      whole.forget(task);
      try {
        tables.release(task); // also when its last commit has failed: no lost follows then
      } catch (error) {
        this.#at.failed(asError(error)); // a store's close() has thrown what is no StoreError
      }
    }
    this.#changed();
  }

  #changed(): void {
    this.#at.tables.conn.wake();
  }
}
