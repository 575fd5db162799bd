/** What each data frame of the sidecar does: checked, counted, queued or dropped. Pure. */

import { Batch } from "./batch.js";
import { Code, FrameKind } from "./codes.js";
import type { Core } from "./core.js";
import { ProtocolError } from "./errors.js";
import { type Frame, parse } from "./frames.js";
import type { Stream } from "./tasks.js";

/** Take a frame. Throws ProtocolError when the connection cannot go on. */
export function receive(core: Core, data: Uint8Array): void {
  const frame = parse(data);
  const size = data.length;
  const stream = core.streams.byId.get(frame.stream);
  core.receiving.received(size, stream);
  if (stream === undefined) {
    const text = `stream ${frame.stream} was never assigned`;
    drop(core, size, undefined, Code.UnknownStream, text, frame.stream);
    return;
  }
  if (stream.kind !== frame.kind) {
    const text = `a frame of kind ${frame.kind} on stream ${stream.id} of ${stream.name}`;
    throw new ProtocolError(text, Code.BadMessage);
  }
  const { of } = stream;
  if (
    of.ended ||
    of.failed ||
    stream.refused ||
    frame.epoch !== of.task.epoch ||
    of.state === "revoking"
  ) {
    core.receiving.taken(size, stream, true); // stale: received, so granted, and no more
    return;
  }
  if (!of.allows(frame.kind === FrameKind.Records ? "recordsFrame" : "restoreFrame")) {
    const text = `a frame of ${stream.name} before task ${of.task.name} takes it`;
    drop(core, size, stream, Code.NotAllowed, text, stream.id);
    return;
  }
  if (stream.next !== null && stream.next !== frame.base) {
    stream.refused = true;
    const text = `a frame of ${stream.name} starts at ${frame.base}, not at ${stream.next}`;
    drop(core, size, stream, Code.OffsetMismatch, text, stream.id);
    return;
  }
  stream.next = frame.next;
  queue(core, stream, frame);
}

function queue(core: Core, stream: Stream, frame: Frame): void {
  const { task } = stream.of;
  const batch = new Batch(frame, task, stream.topic, stream.name, stream.fence);
  core.queue.put(
    frame.kind === FrameKind.Records
      ? { type: "records", task, topic: stream.topic, batch }
      : { type: "restore", task, table: stream.name, batch },
  );
}

function drop(
  core: Core,
  size: number,
  stream: Stream | undefined,
  code: Code,
  message: string,
  id: number,
): void {
  core.receiving.taken(size, stream, true);
  const task = stream?.of.task;
  core.outbox.say({
    type: "error",
    code,
    message,
    task: task?.name,
    epoch: task?.epoch,
    stream: id,
  });
}
