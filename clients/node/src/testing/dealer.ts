/**
 * The sidecar's part in a TestDriver: it assigns tasks, restores them, and sends what is new in the
 * logs. Nothing here waits.
 *
 * Flow: drive() after whatever has happened; standing() says what is still to be done.
 */

import type { Topology } from "../worker/topology.js";
import type { Epoch, Role } from "./sim/epoch.js";
import type { Stored } from "./sim/kafka.js";
import * as moves from "./sim/moves.js";
import { partitionOf } from "./sim/partitioner.js";
import type { Session } from "./sim/session.js";
import type { Sidecar } from "./sim/sidecar.js";

export class Dealer {
  /** What each task is to be. */
  readonly roles = new Map<string, Role>();
  readonly #sidecar: Sidecar;
  readonly #partitions: number;
  readonly #nowMs: () => number;
  #greeted: Session | null = null;
  /** How many outputs were put where this worker may read them. */
  #routed = 0;

  constructor(sidecar: Sidecar, { declaration }: Topology, nowMs: () => number) {
    const { partitions } = sidecar.settings;
    this.#sidecar = sidecar;
    this.#partitions = partitions;
    this.#nowMs = nowMs;
    for (let partition = 0; partition < partitions; partition++) {
      for (const { name } of declaration.globals) {
        this.roles.set(`${name}/${partition}`, "global");
      }
      for (const { name } of declaration.sets) {
        this.roles.set(`${name}/${partition}`, "active");
      }
    }
  }

  /** Put a record into a topic. */
  append(topic: string, partition: number, record: Stored): Stored {
    const log = this.#sidecar.kafka.log(topic, partition);
    const { timestamp = this.#nowMs() } = record;
    const placed = { ...record, timestamp, offset: log.end };
    log.append([placed]);
    return placed;
  }

  /** Forget what was written to outputs. */
  clear(): void {
    this.#sidecar.kafka.outputs = [];
    this.#routed = 0;
  }

  /** The living tasks of a partition, without those of global tables. */
  epochs(partition: number): Epoch[] {
    const { session } = this.#sidecar;
    return [...(session?.tasks.values() ?? [])].filter(
      (epoch) => epoch.partition === partition && epoch.role !== "global" && epoch.living,
    );
  }

  /** Do what there is to do now. */
  drive(): void {
    this.#route();
    const { session } = this.#sidecar;
    if (session === null || session.ended || session.hello === null) {
      return;
    }
    if (this.#greeted !== session) {
      this.#greeted = session;
      session.greet();
    }
    for (const [task, role] of this.roles) {
      const epoch = session.tasks.get(task);
      if (epoch?.living !== true) {
        moves.assign(session, task, role);
      } else if (epoch.state === "failed") {
        moves.lose(session, epoch, "commit_failed");
      } else if (epoch.role !== role) {
        this.#change(session, epoch);
      } else {
        this.#serve(session, epoch);
      }
    }
  }

  /** Say what has something left to do. */
  *standing(): Generator<string, void, undefined> {
    const { session } = this.#sidecar;
    if (session === null || session.hello === null || session.ended) {
      yield "it is not connected";
      return;
    }
    for (const [task, role] of this.roles) {
      const epoch = session.tasks.get(task);
      const wanted = role === "standby" ? "restoring" : "running";
      if (epoch === undefined || epoch.role !== role || epoch.state !== wanted) {
        yield `task ${task} is ${epoch?.state ?? "not assigned"}`;
      } else if (epoch.queue.length > 0) {
        yield `task ${task} has not taken what was sent to it`;
      } else {
        yield* this.#unread(epoch);
      }
    }
  }

  *#unread({ task, role, partition, tables, sources }: Epoch): Generator<string, void, undefined> {
    const { kafka } = this.#sidecar;
    for (const { kind, topic, position } of tables.values()) {
      const followed = kind !== "changelog" || role === "standby";
      if (followed && position < kafka.log(topic, partition).end) {
        yield `task ${task} has not read ${topic}`;
      }
    }
    for (const topic of sources.keys()) {
      const [position, { end }] = [kafka.position(topic, partition), kafka.log(topic, partition)];
      if (position < end) {
        yield `task ${task} has committed ${topic} up to ${position} of ${end}`;
      }
    }
  }

  /** Make an active a standby, or the other way round. */
  #change(session: Session, epoch: Epoch): void {
    if (epoch.role === "active" && epoch.state === "running") {
      moves.demote(session, epoch);
    } else if (epoch.role === "standby" && epoch.state === "restoring") {
      for (const stream of epoch.tables.values()) {
        moves.restore(session, stream);
      }
      moves.promote(session, epoch);
    }
  }

  /** Send an epoch what it has not had yet. */
  #serve(session: Session, epoch: Epoch): void {
    const whole = epoch.state === "running";
    if (
      epoch.resets.size > 0 ||
      epoch.queue.length > 0 ||
      !(whole || epoch.state === "restoring")
    ) {
      return;
    }
    for (const stream of epoch.tables.values()) {
      if (!whole || stream.kind !== "changelog") {
        moves.restore(session, stream);
      }
    }
    if (!whole && epoch.role !== "standby") {
      moves.restored(session, epoch);
    }
    if (whole && this.#globalsRun(session)) {
      for (const source of epoch.sources.values()) {
        if (source.position < session.kafka.log(source.topic, epoch.partition).end) {
          moves.deliver(session, source);
        }
      }
    }
  }

  #globalsRun(session: Session): boolean {
    return [...this.roles].every(
      ([task, role]) => role !== "global" || session.tasks.get(task)?.ran,
    );
  }

  /** Put what was written to outputs where it can be read. */
  #route(): void {
    const { outputs } = this.#sidecar.kafka;
    for (const written of outputs.slice(this.#routed)) {
      const partition = partitionOf(written.record.key, this.#partitions);
      const record = this.append(written.topic, partition, written.record);
      outputs[this.#routed] = { ...written, record, partition };
      this.#routed += 1;
    }
  }
}
