/**
 * The protocol core of one connection: messages in, events and messages out. No I/O.
 *
 * Flow: the connection gives every websocket message to receive(); events go to the EventQueue; user
 * code takes them through take(), which grants credit. What user code answers and what the core
 * itself has to say leave through nextOutgoing(); the order there is the Outbox's.
 */

import * as answers from "./answers.js";
import type { Changelog, Outcome, Outputs } from "./commits.js";
import { decode } from "./control.js";
import { Core } from "./core.js";
import { receive } from "./data.js";
import { MessageError, type PillionError } from "./errors.js";
import type { Event } from "./events.js";
import { handle } from "./handlers.js";
import type { Answered, Question } from "./locate.js";
import type { DraftOf, ErrorMessage, Message, WaitingMessage, WelcomeMessage } from "./messages.js";
import type { Named } from "./named.js";
import type { EventQueue } from "./queue.js";
import type { Task } from "./tasks.js";

export const VERSION = 1;

/** The worker's side of one connection. */
export class Protocol {
  readonly #core: Core;

  constructor(hello: DraftOf<"hello">, queue: EventQueue) {
    this.#core = new Core(hello, queue);
  }

  get welcome(): WelcomeMessage | null {
    return this.#core.welcome;
  }

  /** The last message, if it is an error that answers no request: why a close follows. */
  get lastError(): ErrorMessage | null {
    return this.#core.lastError;
  }

  get waiting(): WaitingMessage | null {
    return this.#core.waiting;
  }

  /** Whether all that was said has been sent, but for credit. */
  get flushed(): boolean {
    return this.#core.outbox.empty;
  }

  // -- what comes from the sidecar

  /** Take one websocket message. Throws ProtocolError when the connection cannot go on. */
  receive(data: string | Uint8Array): void {
    if (typeof data !== "string") {
      receive(this.#core, data);
      return;
    }
    const message = this.#decode(data);
    if (message !== undefined) {
      handle(this.#core, message);
    }
  }

  #decode(text: string): Message | undefined {
    try {
      return decode(text);
    } catch (error) {
      if (!(error instanceof MessageError) || error.fatal) {
        throw error;
      }
      const { code, text: message, re } = error;
      this.#core.outbox.say({ type: "error", code, message, re });
      return undefined;
    }
  }

  /** End the connection: every task is lost, every commit without an answer fails. */
  closed(error: PillionError): void {
    this.#core.outbox.close(error);
    for (const state of this.#core.tasks.values()) {
      state.released = false;
      if (state.go("lost")) {
        this.#core.lose(state, error.code, error.text);
      }
    }
  }

  // -- what user code takes

  /** Take the next event, or the next that is not busy. Its bytes are granted anew. */
  take(busy?: (event: Event) => boolean): Event | null {
    if (this.#core.hung) {
      this.#core.hung = false;
      this.progress();
    }
    const event = this.#core.queue.take(busy);
    if (event !== null) {
      this.#core.took(event, false);
    }
    return event;
  }

  /** User code waits for more; true when there is something to send for it. */
  idle(): boolean {
    return this.#core.receiving.idle();
  }

  /** Say whether the epoch goes on, as far as the sidecar has said. */
  lives(task: Task): boolean {
    return this.#core.own(task)?.failed === false;
  }

  /** Say whether what was committed in the epoch still belongs into its stores. */
  keeps(task: Task): boolean {
    const state = this.#core.tasks.get(task.name);
    if (state === undefined || (state.ended && !state.released)) {
      return false;
    }
    return task === state.task || task === state.was;
  }

  /** Say whether no reset has come behind the newest restored: its rows are all there. */
  whole(task: Task): boolean {
    return this.#core.own(task)?.whole ?? false;
  }

  // -- what user code says

  opened(task: Task, checkpoints: Named<string | null>): void {
    answers.opened(this.#core, task, checkpoints);
  }

  ready(task: Task): void {
    answers.ready(this.#core, task);
  }

  release(task: Task): void {
    answers.release(this.#core, task);
  }

  /** Say that the worker is alive and working. */
  progress(): void {
    this.#core.outbox.say({ type: "progress" });
  }

  fail(task: Task, code: string, message: string, table = ""): void {
    answers.fail(this.#core, task, code, message, table);
  }

  commit(
    task: Task,
    sourceNext: Named<number>,
    changelog: Changelog,
    outputs: Outputs,
    done: (outcome: Outcome) => void,
  ): void {
    answers.commit(this.#core, task, sourceNext, changelog, outputs, done);
  }

  locate(asked: Question, done: Answered): void {
    answers.locate(this.#core, asked, done);
  }

  // -- what goes to the sidecar

  /** Give the next websocket message that may be sent now; null when there is none. */
  nextOutgoing(): string | Uint8Array | null {
    return this.#core.outbox.next();
  }
}
