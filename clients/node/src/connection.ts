/**
 * The connection: the protocol core over a websocket, made again when it breaks.
 *
 * Flow: the keeper (a Link in keeper.ts) dials, and hands what comes to the core; user code is the
 * only reader of the event queue. Whatever the core has to say is sent at once, in the call that
 * made it say so. An event loop that user code blocks costs nothing but time: the sidecar keeps the
 * membership of the group alive.
 *
 * INVARIANT: a commit belongs to the connection it was made on; it is never sent on a later one.
 */

import { Batch } from "./batch.js";
import { Code } from "./codes.js";
import type { Changelog, Committed, Outcome, Outputs } from "./commits.js";
import { unreachable } from "./dial.js";
import { Drained, PillionError, UsageError } from "./errors.js";
import type { Event, RecordsEvent } from "./events.js";
import { Keeper } from "./keeper.js";
import type { Located, Question } from "./locate.js";
import type { WelcomeMessage } from "./messages.js";
import type { Named } from "./named.js";
import type { Options } from "./options.js";
import type { Protocol } from "./protocol.js";
import { turn } from "./signal.js";
import type { Task } from "./tasks.js";

/** What a commit writes, and how far it goes. */
export interface CommitOptions {
  /** Next offset by source topic. Without it: the batch's end. */
  readonly sourceNext?: Named<number>;
  readonly changelog?: Changelog;
  readonly outputs?: Outputs;
}

export interface FailOptions {
  /** store_open_failed unless it is named. */
  readonly code?: string;
  readonly table?: string;
}

/**
 * A worker's connection to its sidecar, made by connect().
 *
 * `for await (const event of conn)` gives one ordered stream. It ends when the sidecar has drained
 * or after stop(); it throws a ConnectionFatal when the sidecar does not want this worker again. A
 * broken connection is made again by itself: all tasks are lost, then assigned anew. Leaving the
 * loop does not close: `await using`, or close().
 */
export class Connection implements AsyncIterable<Event>, AsyncDisposable {
  readonly #options: Options;
  readonly #keeper: Keeper;

  constructor(options: Options) {
    this.#options = options;
    this.#keeper = new Keeper(options);
  }

  /** Connect for the first time. connect() does it. Rejects as connect() does. */
  open(): Promise<void> {
    return this.#keeper.open();
  }

  [Symbol.asyncIterator](): AsyncIterator<Event, undefined> {
    return {
      next: async () => {
        const value = await this.next();
        return value === null ? { done: true, value: undefined } : { done: false, value };
      },
    };
  }

  /**
   * Wait for the next event; null at the end. What busy matches stays, and all behind it of the same
   * task. After what busy says has changed, call wake().
   */
  async next(busy?: (event: Event) => boolean): Promise<Event | null> {
    const keeper = this.#keeper;
    await turn(); // so that credit leaves and `lost` arrives in a tight loop
    while (!keeper.stopping) {
      const event = keeper.protocol?.take(busy) ?? null;
      if (event !== null) {
        keeper.send();
        return event;
      }
      if (keeper.end instanceof Drained) {
        break;
      }
      if (keeper.end !== null) {
        throw keeper.end;
      }
      keeper.protocol?.idle();
      keeper.send();
      keeper.arrived.clear();
      await keeper.arrived.wait();
    }
    return null;
  }

  // -- what user code asks

  /** What the sidecar said at the latest connect: group, guarantee, limits, deadlines. */
  get welcome(): WelcomeMessage {
    const welcome = this.#keeper.protocol?.welcome;
    if (welcome === undefined || welcome === null) {
      throw new UsageError("there is no connection at this moment; wait for an event first");
    }
    return welcome;
  }

  /** Where the sidecar is. */
  get url(): string {
    return this.#options.where.url;
  }

  /** Say whether the task's epoch goes on; after lost it does not, whatever is queued. */
  lives(task: Task): boolean {
    return this.#keeper.protocol?.lives(task) ?? false;
  }

  /**
   * Say whether what was committed in the task's epoch still belongs into its stores: it does while
   * the epoch lives, and when demoted has ended it.
   */
  keeps(task: Task): boolean {
    return this.#keeper.protocol?.keeps(task) ?? false;
  }

  /** Say whether a restored that was taken still counts: a reset may have come behind it. */
  whole(task: Task): boolean {
    return this.#keeper.protocol?.whole(task) ?? false;
  }

  // -- what user code says

  /** Answer assigned with the checkpoint of every table, or reset with that of the one. */
  opened(task: Task, checkpoints: Named<string | null>): void {
    this.#say((protocol) => protocol.opened(task, checkpoints));
  }

  /** Answer restored or promoted: records may come. */
  ready(task: Task): void {
    this.#say((protocol) => protocol.ready(task));
  }

  /** Answer revoking, after the last commit of the task was made. */
  release(task: Task): void {
    this.#say((protocol) => protocol.release(task));
  }

  /** Say that this worker is alive, in the middle of long work. */
  progress(): void {
    this.#say((protocol) => protocol.progress());
  }

  /** Say that the task cannot go on, or a store of it cannot be used; it is opened anew. */
  fail(
    task: Task,
    message: string,
    { code = Code.StoreOpenFailed, table = "" }: FailOptions = {},
  ): void {
    this.#say((protocol) => protocol.fail(task, code, message, table));
  }

  /**
   * Commit positions, changelog rows and output records as one.
   *
   * Up to two commits of a task may be on their way. Throws CommitRejected at once for what the
   * sidecar would refuse. The promise rejects with a CommitError, or with ConnectionLost when the
   * connection ends before the answer; a lost event follows then, so nobody has to wait for it.
   * ended hears the same as the promise at once, before any event that came behind the answer.
   */
  commit(
    of: Batch | RecordsEvent | Task,
    what: CommitOptions = {},
    ended?: (outcome: Outcome) => void,
  ): Promise<Committed> {
    const batch = of instanceof Batch ? of : "batch" in of ? of.batch : null;
    const task = batch === null ? (of as Task) : batch.task;
    const { sourceNext = batch === null ? {} : { [batch.topic]: batch.nextOffset } } = what;
    const { changelog = {}, outputs = {} } = what;
    const { protocol, end } = this.#keeper;
    return settled((resolve) => {
      const done = (outcome: Outcome): void => {
        try {
          ended?.(outcome);
        } finally {
          resolve(outcome);
        }
      };
      if (protocol === null || end !== null) {
        done(end ?? unreachable(this.#options.where));
      } else {
        protocol.commit(task, sourceNext, changelog, outputs, done);
        this.#keeper.send();
      }
    });
  }

  /**
   * Find the members of the group that hold a key of a table: its active and its standbys.
   *
   * The key's partition is the one that the Java client's partitioner gives it, or partition names
   * one. set tells tables of one name apart, or stands alone. Rejects with LocateError, and with
   * ConnectionLost while the sidecar is away; a retriable one is worth another attempt.
   */
  async locate(asked: Question): Promise<Located> {
    const { protocol, end } = this.#keeper;
    if (protocol === null || end !== null) {
      throw end ?? unreachable(this.#options.where);
    }
    return await settled<Located>((done) => {
      protocol.locate(asked, done);
      this.#keeper.send();
    });
  }

  /** Say one sentence to a person, where the connection says its own. */
  notice(sentence: string): void {
    this.#options.notice(sentence);
  }

  /** Let next() look again. */
  wake(): void {
    this.#keeper.arrived.fire();
  }

  /** End the iteration at the next event: for shutting down. Events not taken are left. */
  stop(): void {
    this.#keeper.stop();
  }

  /** Send what was said (a release), and close. May be called again, and inside of the loop. */
  close(): Promise<void> {
    return this.#keeper.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #say(what: (protocol: Protocol) => void): void {
    const { protocol } = this.#keeper;
    if (protocol !== null) {
      what(protocol);
      this.#keeper.send();
    }
  }
}

/** A promise of what done is called with. Nobody has to wait for it: lost tells the same. */
function settled<T>(begin: (done: (outcome: T | PillionError) => void) => void): Promise<T> {
  let resolve: (value: T) => void = () => {};
  let reject: (error: PillionError) => void = () => {};
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  begin((outcome) => (outcome instanceof PillionError ? reject(outcome) : resolve(outcome)));
  promise.catch(() => {}); // an error that is not waited for must not end the process
  return promise;
}
