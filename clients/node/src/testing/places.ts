/**
 * Where what a worker has declared is in the simulated Kafka: topics, partitions, logs.
 *
 * It must never make up a place: what is not this worker's is a UsageError.
 */

import { UsageError } from "../errors.js";
import { shown } from "../worker/checks.js";
import type { AnyTable, Output, Topic } from "../worker/declared.js";
import type { Topology } from "../worker/topology.js";
import type { Log } from "./sim/kafka.js";
import { partitionOf } from "./sim/partitioner.js";
import type { Sidecar } from "./sim/sidecar.js";

export class Places {
  readonly #topology: Topology;
  readonly #sidecar: Sidecar;
  readonly #partitions: number;

  constructor(topology: Topology, sidecar: Sidecar) {
    this.#topology = topology;
    this.#sidecar = sidecar;
    this.#partitions = sidecar.settings.partitions;
  }

  /** The name of a source topic. */
  source(topic: Topic<never, never> | Topic<unknown, unknown>): string {
    const plans = [...this.#topology.sets.values()];
    if (
      !plans.some(({ handlers }) => [...handlers.values()].some((each) => each.topic === topic))
    ) {
      throw new UsageError(
        `${shown(topic)} is no source topic of this worker; give what worker.topic() made`,
      );
    }
    return topic.name;
  }

  /** The name of an output's topic. */
  output<K, V>(output: Output<K, V>): string {
    if (!has(this.#topology.outputs, output)) {
      throw new UsageError(`${shown(output)} is no output of this worker`);
    }
    return output.name;
  }

  /** The name of a table's topic, or of its changelog. */
  table<K, V>(table: AnyTable<K, V>): string {
    const { globals, sets, declaration } = this.#topology;
    if (!has([...globals, ...[...sets.values()].flatMap(({ tables }) => tables)], table)) {
      throw new UsageError(`${shown(table)} is no table of this worker`);
    }
    if (table.kind !== "table") {
      return table.topic;
    }
    const group = declaration.group || this.#sidecar.settings.group;
    return table.changelog ?? `${group}-${table.name}-changelog`;
  }

  /** The logs of a table, of all partitions or of one. */
  logs<K, V>(table: AnyTable<K, V>, partition: number | undefined): Log[] {
    const topic = this.table(table);
    if (partition !== undefined) {
      this.check(partition);
    }
    const all = Array.from({ length: this.#partitions }, (_, at) => at);
    const { kafka } = this.#sidecar;
    return (partition === undefined ? all : [partition]).map((at) => kafka.log(topic, at));
  }

  /** The partition of a key. */
  partition(key: Uint8Array | null): number {
    return partitionOf(key, this.#partitions);
  }

  /** Throws UsageError when there is no such partition. */
  check(partition: number): void {
    if (!(partition >= 0 && partition < this.#partitions)) {
      throw new UsageError(`there is no partition ${partition}; there are ${this.#partitions}`);
    }
  }
}

function has(all: readonly unknown[], what: unknown): boolean {
  return all.includes(what);
}
