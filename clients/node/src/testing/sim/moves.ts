/** What a sidecar does to the tasks of a worker. Each move says its messages and returns at once. */

import { FrameKind } from "../../codes.js";
import { encode } from "../../encode.js";
import type { Epoch, Role, Stream } from "./epoch.js";
import type { Placed } from "./kafka.js";
import type { Session } from "./session.js";

const WHY = "the test wants it so";

/** Find the epoch of a task that goes on. */
export function living(session: Session, task: string): Epoch {
  const epoch = session.tasks.get(task);
  if (epoch?.living !== true) {
    throw new RangeError(`task ${task} is not assigned`);
  }
  return epoch;
}

/** Give a task under a new epoch; opened answers. */
export function assign(session: Session, task: string, role: Role = "active"): Epoch {
  const epoch = session.begin(task, role);
  epoch.asked = session.nextId();
  session.say({
    type: "assign",
    id: epoch.asked,
    task: epoch.wireName,
    set: epoch.of,
    partition: epoch.partition,
    role,
    epoch: epoch.number,
    ...streamsOf(epoch),
  });
  return epoch;
}

export interface RestoreOptions {
  /** Records of a frame; 0: all in one. */
  readonly perFrame?: number | undefined;
  /** Where to end, instead of the log's end. */
  readonly until?: number | undefined;
  /** What the first frame says about where it begins, instead of the truth. */
  readonly base?: number | undefined;
  /** Add a frame without records. */
  readonly empty?: boolean | undefined;
}

/** Send rows of a table from where its stream is, with checkpoints. */
export function restore(session: Session, table: Stream, how: RestoreOptions = {}): void {
  const { perFrame = 0, empty = false } = how;
  const log = session.kafka.log(table.topic, table.epoch.partition);
  const end = how.until ?? log.end;
  let { base } = how;
  for (const [records, next] of cut(log.since(table.position, end), perFrame, end)) {
    restoreFrame(session, table, base ?? table.position, records, next);
    base = undefined;
  }
  if (empty || table.position < end) {
    restoreFrame(session, table, table.position, [], end);
  }
  session.pump();
}

/** Say that the tables are whole, behind the frames; ready answers. */
export function restored(session: Session, epoch: Epoch): void {
  const id = session.nextId();
  const message = { type: "restored", id, task: epoch.wireName, epoch: epoch.number } as const;
  session.inStream(epoch, message, () => {
    epoch.ready = id;
    epoch.state = "restored";
  });
}

/** Send source records. base makes the frame lie about where it begins. */
export function feed(
  session: Session,
  source: Stream,
  records: readonly Placed[],
  next: number,
  base?: number,
): void {
  const at = base ?? source.position;
  const honest = at === source.position;
  if (honest) {
    source.position = next;
  }
  const data = frame(FrameKind.Records, source, at, next, records);
  const sent = () => {
    if (honest) {
      delivered(source, at, next, records);
    }
  };
  source.epoch.queue.push({ stream: source, data, sent });
  session.pump();
}

/** Send what the source's log holds from its position on; perFrame 0: all in one frame. */
export function deliver(session: Session, source: Stream, perFrame = 0): void {
  const log = session.kafka.log(source.topic, source.epoch.partition);
  for (const [records, next] of cut(log.since(source.position), perFrame, log.end)) {
    feed(session, source, records, next);
  }
}

/** Ask for a task; released answers. What has not been sent of it stays here. */
export function revoke(
  session: Session,
  epoch: Epoch,
  code = "rebalance",
  deadlineMs = 10_000,
): void {
  epoch.queue = [];
  epoch.revoke = session.nextId();
  if (epoch.state !== "failed") {
    epoch.state = "revoking";
  }
  const of = { id: epoch.revoke, task: epoch.wireName, epoch: epoch.number };
  session.say({ type: "revoke", ...of, deadlineMs, code });
}

/** End an epoch at once. */
export function lose(session: Session, epoch: Epoch, code = "fenced"): void {
  epoch.queue = [];
  epoch.state = "over";
  session.lively = false;
  const of = { task: epoch.wireName, epoch: epoch.number };
  session.say({ type: "lost", ...of, code, message: WHY });
}

/** Make a standby the active, behind the frames; ready answers. */
export function promote(session: Session, old: Epoch): Epoch {
  const epoch = takeOver(session, old, "active");
  const id = session.nextId();
  const of = { id, task: epoch.wireName, epoch: epoch.number };
  session.inStream(epoch, { type: "promoted", ...of, ...streamsOf(epoch) }, () => {
    old.state = "over";
    epoch.ready = id;
    epoch.state = "restored";
  });
  return epoch;
}

/** Make an active a standby, behind the frames. Its records that were not sent stay here. */
export function demote(session: Session, old: Epoch): Epoch {
  old.queue = old.queue.filter(({ stream }) => stream?.kind !== "records");
  const epoch = takeOver(session, old, "standby");
  const of = { task: epoch.wireName, epoch: epoch.number };
  session.inStream(epoch, { type: "demoted", ...of, tables: epoch.tableStreams() }, () => {
    old.state = "over";
    epoch.state = "restoring";
  });
  return epoch;
}

/**
 * Have one store wiped; opened answers. Frames of it, and a restored that was not answered, do not
 * count any more.
 */
export function reset(session: Session, epoch: Epoch, table: Stream, nextOffset = 0): void {
  epoch.queue = epoch.queue.filter(({ stream }) => stream !== table && stream !== null);
  if (epoch.ready !== 0) {
    epoch.overtaken.add(epoch.ready);
  }
  const id = session.nextId();
  table.position = nextOffset;
  epoch.resets.set(id, table);
  session.say({
    type: "reset",
    id,
    task: epoch.wireName,
    epoch: epoch.number,
    table: table.name,
    stream: table.id,
    nextOffset,
    code: "recreated",
    message: WHY,
  });
}

/** Build a frame with no column more than its records need. */
function frame(
  kind: FrameKind,
  { id, epoch }: Stream,
  base: number,
  next: number,
  records: readonly Placed[],
  checkpoint = "",
): Buffer {
  const offsets = records.map((record) => record.offset);
  const dense = offsets.every((offset, i) => offset === base + i);
  const stamped = records.some((record) => record.timestamp !== undefined);
  const headed = records.some(
    (record) => record.headers !== undefined && record.headers.length > 0,
  );
  return encode({
    kind,
    stream: id,
    epoch: epoch.number,
    base,
    next,
    keys: records.map((record) => record.key),
    values: records.map((record) => record.value),
    timestamps: stamped ? records.map((record) => record.timestamp ?? 0) : undefined,
    offsets: dense ? undefined : offsets,
    headers: headed ? records.map((record) => record.headers ?? []) : undefined,
    checkpoint,
  });
}

/** Cut records into frames: each ends where the next record is, the last one at the end. */
function cut(
  records: readonly Placed[],
  perFrame: number,
  end: number,
): [records: Placed[], next: number][] {
  const size = perFrame || Math.max(1, records.length);
  const frames: [Placed[], number][] = [];
  for (let at = 0; at < records.length; at += size) {
    frames.push([records.slice(at, at + size), records[at + size]?.offset ?? end]);
  }
  return frames;
}

function restoreFrame(
  session: Session,
  table: Stream,
  base: number,
  records: readonly Placed[],
  next: number,
): void {
  const mark = session.kafka.checkpoint(table.topic, table.epoch.partition, next);
  const data = frame(FrameKind.Restore, table, base, next, records, mark);
  table.position = next;
  table.epoch.queue.push({ stream: table, data });
}

/** Note which positions a commit may name. */
function delivered(source: Stream, base: number, next: number, records: readonly Placed[]): void {
  source.ends.set(base, true);
  for (const { offset } of records) {
    source.ends.set(offset + 1, true);
  }
  const last = records.at(-1);
  if (last !== undefined && last.offset + 1 !== next) {
    source.ends.set(last.offset + 1, false);
  }
  source.ends.set(next, true);
}

/** Make the next epoch of a task with the stores, and the queue, of the one before. */
function takeOver(session: Session, old: Epoch, role: Role): Epoch {
  const before = old.state;
  const epoch = session.begin(old.task, role);
  old.state = before; // until the worker is told
  epoch.queue = old.queue;
  old.queue = [];
  for (const [name, stream] of epoch.tables) {
    stream.position = old.tables.get(name)?.position ?? 0;
  }
  return epoch;
}

function streamsOf(epoch: Epoch) {
  return {
    sources: epoch.sourceStreams(),
    tables: epoch.tableStreams(),
    outputs: epoch.outputStreams(),
  };
}
