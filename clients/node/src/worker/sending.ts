/**
 * The commits of one task epoch: what was kept, when it is due, and what the answers say.
 *
 * Flow: keep() takes whole units; commit() sends what was kept, from the runner or, while a handler
 * waits for something, beside it; ended() takes the answers, oldest first.
 */

import { Code } from "../codes.js";
import { CommitError, ConnectionLost, Drained } from "../errors.js";
import { Signal } from "../signal.js";
import { nextTick, type Timer } from "./clock.js";
import { channels } from "./logging.js";
import type { Place } from "./runner.js";

/** A commit on its way. */
class Sent {
  done = false;
  error: unknown = null;
}

export class Sending {
  /** The runner is to look again. */
  readonly woken = new Signal();
  /** The epoch is over: nothing can be committed any more. */
  over = false;
  /** The unit in hand is the last one. */
  ending = false;
  readonly #at: Place;
  /** Whether an async handler is at work. */
  readonly #waiting: () => boolean;
  readonly #positions = new Map<string, number>();
  readonly #outstanding: number;
  readonly #room: number;
  #sent: Sent[] = [];
  /** Something waits for the commit that is due then. */
  #commitAt: number | null = null;
  /** Commits while a handler waits. */
  #beside: Timer | null = null;

  constructor(at: Place, waiting: () => boolean) {
    this.#at = at;
    this.#waiting = waiting;
    for (const [topic, { position }] of at.task.sources) {
      this.#positions.set(topic, position);
    }
    const { limits } = at.tables.conn.welcome;
    this.#outstanding = Math.min(2, limits.maxOutstandingCommits);
    this.#room = (limits.maxCommitBytes * 3) / 4;
  }

  /** Whether nothing waits for a commit, or for the answer to one. */
  get clean(): boolean {
    return this.#commitAt === null && this.#sent.length === 0;
  }

  /** The unit is whole, and with it the records of a topic up to this position. */
  keep(size: number, topic?: string, end = 0): void {
    const { work, clock, settings } = this.#at;
    work.keep(size);
    if (topic !== undefined) {
      this.#positions.set(topic, end);
    }
    if (this.#commitAt === null) {
      const now = clock.now();
      this.#commitAt = now;
      if (settings.commitIntervalMs > 0) {
        this.#commitAt = nextTick(now, settings.commitIntervalMs);
        this.#beside = clock.at(this.#commitAt, this.beside);
      }
    }
  }

  /** Whether the unit does not make the commit too large. */
  fits(size: number): boolean {
    const { work } = this.#at;
    return work.size === 0 || work.size + size <= this.#room;
  }

  /** Commit what was kept when the unit would make the commit too large. */
  async roomFor(size: number): Promise<void> {
    if (this.fits(size)) {
      return;
    }
    while (this.#sent.length >= this.#outstanding && !this.over) {
      await this.#answer();
    }
    if (!this.over) {
      this.commit();
    }
  }

  /** Whether something waits for a commit whose time has come, and may be sent. */
  due(): boolean {
    const unanswered = this.#sent.reduce((sum, { done }) => sum + (done ? 0 : 1), 0);
    if (this.#commitAt === null || unanswered >= this.#outstanding) {
      return false;
    }
    return this.#at.clock.now() >= this.#commitAt;
  }

  /** Begin the commit of everything that was kept. Throws what another attempt cannot cure. */
  commit(): void {
    this.#commitAt = null;
    this.#beside?.cancel();
    this.#beside = null;
    const { tables, task, work } = this.#at;
    const began = performance.now();
    const outputs = work.takeOutputs();
    const answer = tables.send(task, new Map(this.#positions), { outputs });
    const sent = new Sent();
    this.#sent.push(sent);
    const ended = (error: unknown): void => {
      sent.done = true;
      sent.error = error;
      if (channels.commit.hasSubscribers) {
        channels.commit.publish({ task: task.name, ms: performance.now() - began, error });
      }
      this.beside();
    };
    answer.then(() => ended(null), ended);
  }

  /** Wait for what was before; but not when there is nothing to do any more. */
  async after(before: Promise<unknown> | undefined): Promise<void> {
    let waits = before !== undefined;
    void before?.then(() => {
      waits = false;
      this.woken.fire();
    });
    while (waits && !this.over && !this.ending) {
      await this.#news();
    }
  }

  /** Wait for news, for a time, or for when the next commit is due. */
  async wait(times: readonly number[]): Promise<void> {
    const { clock } = this.#at;
    const commitAt = this.#sent.length < this.#outstanding ? this.#commitAt : null;
    const first = Math.min(...times, commitAt ?? Number.POSITIVE_INFINITY);
    const timer = Number.isFinite(first) ? clock.at(first, () => this.woken.fire()) : null;
    await this.#news();
    timer?.cancel();
  }

  /** Commit what is left, and wait for all answers. */
  async finish(): Promise<void> {
    while (this.#commitAt !== null && !this.over) {
      if (this.#sent.length >= this.#outstanding) {
        await this.#answer();
      } else {
        this.commit();
      }
    }
    while (this.#sent.length > 0) {
      await this.#answer();
    }
  }

  /** Take the answers that have come. Throws what another attempt cannot cure. */
  ended(): void {
    while (this.#sent[0]?.done) {
      const error = this.#sent.shift()?.error ?? null;
      if (error !== null) {
        this.#failed(error);
      }
    }
  }

  /** Wait for no answer any more. */
  kill(): void {
    this.over = true;
    this.#sent = [];
    this.close();
  }

  /** Leave no timer behind. */
  close(): void {
    this.#beside?.cancel();
    this.#beside = null;
  }

  /** Wake up; commit what is due although a handler waits for something. */
  readonly beside = (): void => {
    this.woken.fire();
    const over = this.over || this.#sent.some(({ error }) => error !== null);
    const { commitIntervalMs } = this.#at.settings;
    if (over || !this.#waiting() || commitIntervalMs === 0 || !this.due()) {
      return;
    }
    try {
      this.commit();
    } catch (error) {
      const failed = new Sent();
      failed.done = true;
      failed.error = error;
      this.#sent.push(failed);
    }
  };

  /** Wait for the oldest commit's end. */
  async #answer(): Promise<void> {
    const [oldest] = this.#sent;
    while (oldest !== undefined && !oldest.done && this.#sent[0] === oldest) {
      await this.#news();
    }
    this.ended();
  }

  async #news(): Promise<void> {
    await this.woken.wait();
    this.woken.clear();
  }

  #failed(error: unknown): void {
    const { tables, task, logger } = this.#at;
    this.over = true; // nothing of this epoch that follows can be committed
    if (error instanceof Drained) {
      return; // a good end, which takes what was in hand to others
    }
    const cured =
      (error instanceof CommitError || error instanceof ConnectionLost) && error.retriable;
    if (!cured) {
      throw error;
    }
    logger.info({ task: task.name, err: error }, error.message);
    if (error.code === Code.NotAllowed && !this.ending) {
      // The epoch goes on, but nothing more of it can come from here: open it anew.
      tables.conn.fail(task, error.text, { code: Code.WorkerFailed });
    }
  }
}
