/**
 * The sidecar's part in a world: what it assigns, sends, takes away and answers, all drawn from the
 * world's seed. Nothing here waits.
 *
 * Flow: drive() goes on with everything; move() has something happen to a task; calm() ends that.
 *
 * It must never do what no sidecar may, like sending more than the worker's credit allows: a world
 * that is wrong then says nothing about the worker.
 */

import type { Commit, Epoch, Role, Stream } from "../../../src/testing/sim/epoch.js";
import * as moves from "../../../src/testing/sim/moves.js";
import type { Session } from "../../../src/testing/sim/session.js";
import type { Sidecar } from "../../../src/testing/sim/sidecar.js";
import type { Random } from "../../random.js";

export class Dealer {
  readonly #sidecar: Sidecar;
  readonly #rng: Random;
  /** What each task is to be. */
  readonly #roles = new Map<string, Role>();
  #calm = false;
  #greeted: Session | null = null;
  /** The epochs that were told that they are whole. */
  #told = new Set<Epoch>();

  constructor(sidecar: Sidecar, rng: Random, sets: readonly string[]) {
    this.#sidecar = sidecar;
    this.#rng = rng;
    for (let p = 0; p < sidecar.settings.partitions; p++) {
      this.#roles.set(`all/${p}`, "global");
      for (const set of sets) {
        this.#roles.set(`${set}/${p}`, "active");
      }
    }
    sidecar.hears = (said) => this.#hears(said);
  }

  /** Have nothing happen any more: all tasks are to be actives, and every commit lands. */
  calm(): void {
    this.#calm = true;
    this.answerAll();
    this.#sidecar.answersHeld = false;
    this.#sidecar.fates.length = 0;
    for (const [task, role] of this.#roles) {
      this.#roles.set(task, role === "global" ? "global" : "active");
    }
  }

  /** The worker is gone. */
  forget(): void {
    this.#greeted = null;
    this.#told = new Set();
  }

  /** Do what there is to do now, or leave some of it for later. */
  drive(): void {
    const { session } = this.#sidecar;
    if (session === null || session.ended || session.hello === null) {
      return;
    }
    if (this.#greeted !== session) {
      this.#greeted = session;
      session.greet();
      for (const [task, role] of this.#roles) {
        if (role === "global") {
          moves.assign(session, task, role); // a sidecar gives them all before anything else
        }
      }
    }
    const oldest = new Map([...session.held].reverse().map((commit) => [commit.epoch, commit]));
    for (const commit of oldest.values()) {
      if (this.#calm || this.#rng.next() < 0.3) {
        this.#answer(commit);
      }
    }
    for (const [task, role] of this.#roles) {
      const epoch = session.tasks.get(task);
      if (!this.#calm && this.#rng.next() < 0.5) {
        continue;
      }
      if (epoch === undefined || !epoch.living) {
        moves.assign(session, task, role);
      } else if (epoch.state === "failed") {
        this.#lose(epoch);
      } else if (epoch.role !== role) {
        this.#change(session, epoch);
      } else {
        this.#serve(session, epoch);
      }
    }
  }

  /** Answer the commits that wait. */
  answerAll(commits: readonly Commit[] = this.#sidecar.session?.held ?? []): void {
    for (const commit of [...commits]) {
      this.#answer(commit);
    }
  }

  /** Something happens to a task. */
  move(): void {
    const { session } = this.#sidecar;
    const living = [...(session?.tasks.values() ?? [])].filter((epoch) => epoch.living);
    if (session?.ended === false && living.length > 0) {
      this.#move(session, this.#rng.pick(living));
    }
  }

  #move(session: Session, epoch: Epoch): void {
    const rng = this.#rng;
    const what = rng.next();
    const opened = ["restoring", "restored", "running"].includes(epoch.state);
    if (what < 0.25 && (opened || epoch.state === "opening") && epoch.role !== "global") {
      moves.revoke(session, epoch);
    } else if (what < 0.45) {
      this.#lose(epoch);
    } else if (what < 0.75 && opened) {
      const resetting = new Set(epoch.resets.values());
      const tables = [...epoch.tables.values()].filter(
        (table) => !resetting.has(table) && (table.kind !== "changelog" || !epoch.ran),
      );
      if (tables.length > 0 && epoch.role !== "standby") {
        this.#told.delete(epoch);
        moves.reset(session, epoch, rng.pick(tables));
      }
    } else if (epoch.role !== "global") {
      this.#roles.set(epoch.task, rng.pick(["active", "standby"] as const));
    }
  }

  #change(session: Session, epoch: Epoch): void {
    if (epoch.queue.length > 0 || epoch.resets.size > 0 || session.waiting(epoch) > 0) {
      return;
    }
    if (epoch.role === "active" && epoch.state === "running" && this.#told.has(epoch)) {
      moves.demote(session, epoch);
    } else if (epoch.role === "standby" && epoch.state === "restoring") {
      for (const table of epoch.tables.values()) {
        moves.restore(session, table);
      }
      this.#told.add(moves.promote(session, epoch));
    } else {
      this.#serve(session, epoch);
    }
  }

  #serve(session: Session, epoch: Epoch): void {
    const opened = ["restoring", "restored", "running"].includes(epoch.state);
    if (epoch.resets.size > 0 || epoch.queue.length > 0 || !opened) {
      return;
    }
    const whole = this.#told.has(epoch);
    for (const table of epoch.tables.values()) {
      if (!whole || table.kind !== "changelog" || epoch.role === "standby") {
        moves.restore(session, table, { perFrame: this.#rng.pick([0, 1, 3]) });
      }
    }
    if (!whole && epoch.role !== "standby") {
      this.#told.add(epoch);
      moves.restored(session, epoch);
    } else if (whole && epoch.state === "running" && this.#globalsWhole(session)) {
      for (const source of epoch.sources.values()) {
        this.#feed(session, source);
      }
    }
  }

  #globalsWhole(session: Session): boolean {
    return [...this.#roles].every(([task, role]) => {
      const epoch = session.tasks.get(task);
      // One with a queue has not been told yet that it is whole again.
      const whole = epoch !== undefined && this.#told.has(epoch) && epoch.queue.length === 0;
      return role !== "global" || (whole && epoch.state === "running");
    });
  }

  /** Send a few records, when the worker's credit allows it at once. */
  #feed(session: Session, source: Stream): void {
    const log = session.kafka.log(source.topic, source.epoch.partition);
    const fresh = log.since(source.position);
    const some = fresh.slice(0, this.#rng.pick([1, 2, 6]));
    if (source.position < log.end && session.maySend(source) && source.epoch.queue.length === 0) {
      let next = fresh[some.length]?.offset ?? log.end;
      const last = some.at(-1);
      if (last !== undefined && this.#rng.next() < 0.3) {
        next = last.offset + 1;
      }
      moves.feed(session, source, some, next);
    }
  }

  #hears({ code, epoch }: Readonly<Record<string, unknown>>): boolean {
    if (code !== "store_open_failed" && code !== "worker_failed") {
      return false;
    }
    const found = this.#sidecar.now.epochs.get(Number(epoch));
    if (found?.living) {
      this.#lose(found);
    }
    return true;
  }

  #lose(epoch: Epoch): void {
    const { now } = this.#sidecar;
    this.answerAll(now.held.filter((each) => each.epoch === epoch));
    moves.lose(now, epoch);
  }

  /** Answer the oldest commit of an epoch that waits. */
  #answer(commit: Commit): void {
    const rng = this.#rng;
    const session = this.#sidecar.now;
    if (commit.epoch.state === "failed") {
      session.answer(commit, "aborted", { code: "commit_failed" });
    } else if (this.#calm || rng.next() < 0.8) {
      session.answer(commit, "committed");
    } else {
      const how = rng.pick(["aborted", "unknown"] as const);
      const lands = how === "unknown" && rng.next() < 0.5;
      session.answer(commit, how, { code: "kafka_unreachable", lands });
    }
  }
}
