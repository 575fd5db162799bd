/** What Kafka would hold: logs, committed positions, outputs. Outlives connections and workers. */

import type { Bytes } from "../../encode.js";
import type { HeaderInit } from "../../headers.js";

/** A record to put into a log. */
export interface Stored {
  readonly key: Bytes;
  readonly value: Bytes;
  readonly headers?: readonly HeaderInit[] | undefined;
  /** In ms since 1970; undefined: it has none. */
  readonly timestamp?: number | undefined;
  /** Undefined: the one behind the record before. */
  readonly offset?: number | undefined;
}

/** A record of a log. */
export interface Placed extends Stored {
  readonly offset: number;
}

/** A record that a commit of a task wrote to an output topic. */
export interface Written {
  readonly task: string;
  readonly topic: string;
  readonly record: Stored;
  /** Undefined: it has not been looked for yet. */
  readonly partition?: number | undefined;
}

/** What a checkpoint means: a log is in the store up to the position. */
export interface Point {
  readonly topic: string;
  readonly partition: number;
  readonly position: number;
  /** It came with the answer to a commit of an epoch that was over: no store may have it. */
  readonly void: boolean;
}

/** One partition of a topic. */
export class Log {
  records: Placed[] = [];
  end = 0;

  /** The records at and after a position, and before until. */
  since(position: number, until?: number): Placed[] {
    const last = until === undefined ? undefined : this.#find(until);
    return this.records.slice(this.#find(position), last);
  }

  /** Put records at the end. */
  append(records: Iterable<Stored>): void {
    const [placed, end] = number(records, this.end);
    for (const each of placed) {
      this.records.push(each);
    }
    this.end = end;
  }

  /** The table that the log adds up to, by key as text of one character for each byte. */
  rows(): Map<string, Buffer> {
    const found = new Map<string, Buffer>();
    for (const { key, value } of this.records) {
      if (key !== null && value !== null) {
        found.set(Buffer.from(key).toString("latin1"), Buffer.from(value));
      } else if (key !== null) {
        found.delete(Buffer.from(key).toString("latin1"));
      }
    }
    return found;
  }

  /** The index of the first record at or behind a position. */
  #find(position: number): number {
    let [low, high] = [0, this.records.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.records[middle]?.offset ?? position) < position) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
}

/** Everything that outlives a worker. */
export class Kafka {
  outputs: Written[] = [];
  /** Every checkpoint that was given. */
  readonly points = new Map<string, Point>();
  readonly #logs = new Map<string, Log>();
  readonly #positions = new Map<string, number>();

  /** The log of a partition, which is there when it is asked for. */
  log(topic: string, partition: number): Log {
    const at = place(topic, partition);
    const found = this.#logs.get(at) ?? new Log();
    this.#logs.set(at, found);
    return found;
  }

  /** The committed position of a source's partition. */
  position(topic: string, partition: number): number {
    return this.#positions.get(place(topic, partition)) ?? 0;
  }

  /** Set a committed position. */
  moveTo(topic: string, partition: number, position: number): void {
    this.#positions.set(place(topic, partition), position);
  }

  /** Make a new checkpoint. It has all characters that a careless client breaks. */
  checkpoint(topic: string, partition: number, position: number, isVoid = false): string {
    const made = `v1:${topic}@${position} #${this.points.size + 1} ~"\\/<&>'{} `;
    this.points.set(made, { topic, partition, position, void: isVoid });
    return made;
  }

  /** The position of the newest checkpoint of a log; 0 without one. */
  newest(topic: string, partition: number): number {
    let newest = 0;
    for (const point of this.points.values()) {
      if (point.topic === topic && point.partition === partition && !point.void) {
        newest = Math.max(newest, point.position);
      }
    }
    return newest;
  }
}

/** Give offsets to those that have none, the first one at `from`; say what is behind the last. */
export function number(records: Iterable<Stored>, from: number): [placed: Placed[], end: number] {
  const placed: Placed[] = [];
  let end = from;
  for (const record of records) {
    const offset = record.offset ?? end;
    placed.push({ ...record, offset });
    end = offset + 1;
  }
  return [placed, end];
}

function place(topic: string, partition: number): string {
  return `${topic}/${partition}`;
}
