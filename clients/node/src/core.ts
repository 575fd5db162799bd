/**
 * What the parts of the protocol core share: the state of one connection. Pure.
 *
 * protocol.ts puts the parts together: handlers.ts and data.ts take what comes from the sidecar,
 * answers.ts what user code says.
 */

import type { Code } from "./codes.js";
import { requestId } from "./control.js";
import { Receiving } from "./credit.js";
import type { Event } from "./events.js";
import { Hold } from "./hold.js";
import type { DraftOf, ErrorMessage, Message, WaitingMessage, WelcomeMessage } from "./messages.js";
import { Outbox } from "./outbox.js";
import { type EventQueue, uselessAfterEnd } from "./queue.js";
import { Streams } from "./streams.js";
import type { Stream, Task, TaskState } from "./tasks.js";

export class Core {
  readonly hello: DraftOf<"hello">;
  readonly queue: EventQueue;
  readonly tasks = new Map<string, TaskState>();
  readonly receiving: Receiving;
  readonly streams: Streams;
  readonly outbox: Outbox;
  readonly hold: Hold;
  welcome: WelcomeMessage | null = null;
  /** The last message, if it is an error that answers no request: why a close follows. */
  lastError: ErrorMessage | null = null;
  waiting: WaitingMessage | null = null;
  /** The sidecar has given our work up, and waits for a sign of it. */
  hung = false;

  constructor(hello: DraftOf<"hello">, queue: EventQueue) {
    this.hello = hello;
    this.queue = queue;
    this.receiving = new Receiving(hello.credit);
    this.streams = new Streams(this.receiving);
    this.outbox = new Outbox(hello, this.receiving);
    this.hold = new Hold(queue);
  }

  /** Find the state of a task that user code holds; undefined when its epoch is over. */
  own(task: Task): TaskState | undefined {
    const state = this.tasks.get(task.name);
    return state !== undefined && state.task === task && !state.ended ? state : undefined;
  }

  /** Answer what the sidecar should not have sent. */
  refuse(message: Message, code: Code, text: string): void {
    this.outbox.say({ type: "error", code, message: text, re: requestId(message) });
  }

  /**
   * A commit of the epoch has failed, or user code has: nothing more of it is delivered or committed.
   * Lost is on its way, unless the task is released.
   */
  failed(state: TaskState): void {
    if (state.ended || state.failed) {
      return;
    }
    state.failed = true;
    for (const stream of state.streams) {
      stream.fence.broken = true;
    }
    this.outbox.giveUp(state);
    this.dropQueued(state.task);
  }

  /** The epoch is over: nothing of it leaves, and of it only lost is left in the queue. */
  lose(state: TaskState, code: string, message: string): void {
    this.outbox.abandon(state);
    this.dropQueued(state.task);
    this.queue.overtake({ type: "lost", task: state.task, code, message });
  }

  /** Drop what means nothing once a task is revoked or lost. */
  dropQueued(task: Task): void {
    this.hold.drop(task, this.dropped);
    this.queue.drop(uselessAfterEnd(task), this.dropped);
  }

  /** An event leaves the queue without being taken: its bytes are granted without waiting. */
  readonly dropped = (event: Event): void => this.took(event, true);

  /** Count the bytes of an event that has left the queue. */
  took(event: Event, now: boolean): void {
    if (event.type !== "restore" && event.type !== "records") {
      return;
    }
    const stream: Stream | undefined = this.streams.byId.get(event.batch.stream);
    // A batch of an earlier connection that was queued then owes nothing to this one.
    if (stream !== undefined && stream.of.task === event.task) {
      this.receiving.taken(event.batch.byteLength, stream, now);
    }
  }
}
