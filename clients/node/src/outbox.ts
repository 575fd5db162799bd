/**
 * What leaves on one connection: limits first, then control, then commits in order. Pure.
 *
 * INVARIANT: the frames of a commit are contiguous among data and its `commit` follows them.
 * INVARIANT: `released` leaves behind the commits that were made before it.
 */

import { type Answer, type Outcome, outcome, type Pending, stale } from "./commits.js";
import { encode } from "./control.js";
import type { Receiving, Sending } from "./credit.js";
import type { PillionError } from "./errors.js";
import { type Answered, located } from "./locate.js";
import type { Draft, DraftOf, ErrorMessage, LocatedMessage } from "./messages.js";
import type { TaskState } from "./tasks.js";

interface Release {
  readonly of: TaskState;
  readonly released: DraftOf<"released">;
}

/** Messages and commits that wait to be sent, and commits that wait for their answer. */
export class Outbox {
  /** From welcome on. */
  sending: Sending | null = null;
  readonly #receiving: Receiving;
  readonly #control: Draft[];
  #ordered: (Pending | Release)[] = [];
  readonly #pending = new Map<number, Pending>();
  readonly #questions = new Map<number, Answered>();
  #lastId: number;
  #closed: PillionError | null = null;

  constructor(hello: DraftOf<"hello">, receiving: Receiving) {
    this.#receiving = receiving;
    this.#control = [hello];
    this.#lastId = hello.id;
  }

  /** Whether nothing waits to be sent. */
  get empty(): boolean {
    return this.#control.length === 0 && this.#ordered.length === 0;
  }

  /** How many questions have no answer yet. */
  get questions(): number {
    return this.#questions.size;
  }

  /** The id that the next request will have. */
  get nextId(): number {
    return this.#lastId + 1;
  }

  /** Send a control message; it overtakes commits. */
  say(message: Draft): void {
    if (this.#closed === null) {
      this.#control.push(message);
    }
  }

  /** Send released behind the commits. */
  release(of: TaskState, released: DraftOf<"released">): void {
    this.#ordered.push({ of, released });
  }

  /** Send a question; it overtakes commits. done is called once. */
  ask(message: DraftOf<"locate">, done: Answered): void {
    if (this.#closed !== null) {
      done(this.#closed);
      return;
    }
    this.#lastId = message.id;
    this.#questions.set(message.id, done);
    this.#control.push(message);
  }

  /** End the question that the message answers; false when it answers none. */
  tell(message: LocatedMessage | ErrorMessage): boolean {
    const done = this.#questions.get(message.re);
    this.#questions.delete(message.re);
    done?.(located(message));
    return done !== undefined;
  }

  /** Send a commit when its turn comes. */
  begin(pending: Pending): void {
    this.#lastId = pending.id;
    pending.of.commits += 1;
    this.#pending.set(pending.id, pending);
    this.#ordered.push(pending);
  }

  /** End the commit that the message answers, and say whose it was; null when it answers none. */
  answer(message: Answer): TaskState | null {
    const pending = this.#pending.get(message.re);
    if (pending === undefined) {
      return null;
    }
    this.#ordered = this.#ordered.filter((each) => each !== pending); // refused before it was whole
    this.#end(pending, outcome(message));
    return pending.of;
  }

  /**
   * End what an over epoch still wanted to send.
   *
   * A commit that has begun is ended with its `commit`, so that the sidecar answers it (stale) and
   * knows that no more frames of it follow.
   */
  abandon(state: TaskState): void {
    this.giveUp(state);
    this.#ordered = this.#ordered.filter((each) => each.of !== state || "frames" in each);
    for (const each of this.#ordered) {
      if (each.of === state && "frames" in each) {
        each.frames.length = 0;
      }
    }
  }

  /**
   * End the commits of a failed epoch that have not begun. INVARIANT: the rest of one that has begun
   * is sent: the sidecar may take what it is not told to be over, and must not take a part.
   */
  giveUp(state: TaskState): void {
    const over = this.#ordered.filter(
      (each): each is Pending => each.of === state && "frames" in each && !each.started,
    );
    this.#ordered = this.#ordered.filter((each) => !over.some((other) => other === each));
    for (const pending of over) {
      this.#end(pending, stale(state.task.name));
    }
  }

  /** Fail every commit and question without an answer; nothing more is sent. */
  close(error: PillionError): void {
    this.#closed = error;
    this.#ordered = [];
    this.#control.length = 0;
    for (const pending of [...this.#pending.values()]) {
      this.#end(pending, error);
    }
    const asked = [...this.#questions.values()];
    this.#questions.clear();
    for (const done of asked) {
      done(error);
    }
  }

  /** Give the next websocket message that may be sent now; null when there is none. */
  next(): string | Uint8Array | null {
    const grant = this.#closed === null ? this.#receiving.grant() : null;
    const control = grant ?? this.#control.shift();
    if (control !== undefined) {
      return encode(control);
    }
    const head = this.#ordered[0];
    if (head === undefined) {
      return null;
    }
    if ("released" in head) {
      this.#ordered.shift();
      return encode(head.released);
    }
    const piece = head.frames[0];
    if (piece === undefined) {
      this.#ordered.shift();
      return encode(head.message);
    }
    // A commit needs a task, and a task a welcome: sending is there.
    if (this.sending === null || !this.sending.spend(piece.stream, piece.data.length)) {
      return null;
    }
    head.started = true;
    head.frames.shift();
    return piece.data;
  }

  #end(pending: Pending, how: Outcome): void {
    this.#pending.delete(pending.id);
    pending.of.commits -= 1;
    pending.done(how);
  }
}
