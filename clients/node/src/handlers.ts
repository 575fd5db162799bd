/**
 * What each control message of the sidecar does. Pure.
 *
 * INVARIANT: after `lost` has been received, no batch of that epoch reaches user code, and no
 * commit of it begins.
 */

import { Code, FrameKind } from "./codes.js";
import type { Answer } from "./commits.js";
import type { Core } from "./core.js";
import { Sending } from "./credit.js";
import { ProtocolError } from "./errors.js";
import type {
  AssignMessage,
  DemotedMessage,
  LostMessage,
  Message,
  MessageOf,
  PromotedMessage,
  ResetMessage,
  RestoredMessage,
  RestoringMessage,
  RevokeMessage,
  WelcomeMessage,
} from "./messages.js";
import { rowsOf } from "./queue.js";
import type { On, Task, TaskState } from "./tasks.js";

/** Handle a message. Throws ProtocolError when the connection cannot go on. */
export function handle(core: Core, message: Message): void {
  const { type } = message;
  core.lastError = null;
  if (core.welcome === null && type !== "welcome" && type !== "error" && type !== "waiting") {
    notAllowed(core, message);
    return;
  }
  switch (type) {
    case "welcome":
      welcome(core, message);
      break;
    case "assign":
      assign(core, message);
      break;
    case "restoring":
      restoring(core, message);
      break;
    case "restored":
      restored(core, message);
      break;
    case "promoted":
    case "demoted":
      newEpoch(core, message);
      break;
    case "revoke":
      revoke(core, message);
      break;
    case "lost":
      lost(core, message);
      break;
    case "reset":
      reset(core, message);
      break;
    case "committed":
    case "aborted":
    case "stale":
    case "unknown":
      answer(core, message);
      break;
    case "located":
      core.outbox.tell(message);
      break;
    case "waiting":
      core.waiting = message;
      core.queue.put({ type: "waiting", code: message.code, message: message.message });
      break;
    case "credit":
      core.outbox.sending?.raise(message, core.streams.byId);
      break;
    case "error":
      if (!answer(core, message) && !core.outbox.tell(message)) {
        core.lastError = message;
      }
      break;
    default:
      notAllowed(core, message);
      break;
  }
}

function notAllowed(core: Core, message: Message): void {
  core.refuse(message, Code.NotAllowed, `${message.type} is not allowed here`);
}

/**
 * End the commit that is answered. After aborted, unknown and stale lost comes; after an error the
 * task may go on.
 */
function answer(core: Core, message: Answer): boolean {
  const of = core.outbox.answer(message);
  if (of !== null && message.type !== "committed" && message.type !== "error") {
    core.failed(of);
  }
  return of !== null;
}

function welcome(core: Core, message: WelcomeMessage): void {
  if (core.welcome !== null || message.re !== core.hello.id) {
    throw new ProtocolError("a welcome that answers no hello", Code.NotAllowed);
  }
  if (!core.hello.versions.includes(message.version)) {
    const text = `the sidecar chose protocol version ${message.version}, which was not offered`;
    throw new ProtocolError(text, Code.Version);
  }
  core.welcome = message;
  core.outbox.sending = core.streams.sending = new Sending(message.credit);
}

function assign(core: Core, message: AssignMessage): void {
  const before = core.tasks.get(message.task);
  if (before !== undefined && !before.ended) {
    const text = `task ${message.task} is assigned already under epoch ${before.task.epoch}`;
    core.refuse(message, Code.NotAllowed, text);
    return;
  }
  const task: Task = {
    name: message.task,
    set: message.set,
    partition: message.partition,
    role: message.role,
    epoch: message.epoch,
    ...byName(message),
  };
  core.tasks.set(task.name, core.streams.open(task, "opening", message.id, null));
  core.queue.put({ type: "assigned", task });
}

function byName(
  of: Partial<Pick<AssignMessage, "tables" | "sources" | "outputs">>,
): Pick<Task, "tables" | "sources" | "outputs"> {
  return {
    tables: new Map((of.tables ?? []).map((each) => [each.name, each])),
    sources: new Map((of.sources ?? []).map((each) => [each.topic, each])),
    outputs: new Map((of.outputs ?? []).map((each) => [each.topic, each])),
  };
}

function restoring(core: Core, message: RestoringMessage): void {
  const state = current(core, message, "restoring");
  if (state !== undefined) {
    const { table, records, bytes, rate, remaining, etaMs, waitsFor } = message;
    const { task } = state;
    core.queue.put({
      type: "restoring",
      task,
      table,
      records,
      bytes,
      rate,
      remaining,
      etaMs,
      waitsFor,
    });
  }
}

function restored(core: Core, message: RestoredMessage): void {
  const state = current(core, message, "restoredAll");
  if (state !== undefined) {
    state.restored.push(message.id);
    state.whole = true;
    core.queue.put({ type: "restored", task: state.task });
  }
}

/** A standby becomes the active, or an active a standby: its stores stay open. */
function newEpoch(core: Core, message: PromotedMessage | DemotedMessage): void {
  const old = core.tasks.get(message.task);
  if (old === undefined || old.ended) {
    return; // lost has overtaken it
  }
  const { task: was } = old;
  const promoted = message.type === "promoted";
  if ((promoted && was.role !== "standby") || !old.go(promoted ? "promote" : "demote")) {
    notAllowed(core, message);
    return;
  }
  const { name, set, partition } = was;
  const streams = byName(promoted ? message : { tables: message.tables });
  const role = promoted ? "active" : "standby";
  const task: Task = { name, set, partition, role, epoch: message.epoch, ...streams };
  const made = core.streams.open(task, promoted ? "promoted" : "restoring", 0, old);
  core.tasks.set(name, made);
  if (promoted) {
    made.restored.push(message.id);
    core.queue.put({ type: "promoted", task, was });
    return;
  }
  made.was = was;
  core.outbox.abandon(old);
  core.hold.drop(was, core.dropped);
  core.queue.drop((event) => event.type === "records" && event.task === was, core.dropped);
  core.queue.put({ type: "demoted", task, was });
}

function revoke(core: Core, message: RevokeMessage): void {
  const state = current(core, message, "revoke");
  if (state !== undefined) {
    const { deadlineMs, code } = message;
    state.request = message.id;
    core.dropQueued(state.task);
    core.queue.overtake({ type: "revoking", task: state.task, deadlineMs, code });
  }
}

function lost(core: Core, message: LostMessage): void {
  core.hung ||= message.code === Code.Hung;
  const released = core.tasks.get(message.task);
  if (released?.ended && released.task.epoch === message.epoch) {
    released.released = false;
    core.outbox.abandon(released); // too late: the sidecar did not wait
    return;
  }
  const state = current(core, message, "lost");
  if (state !== undefined) {
    core.lose(state, message.code, message.message);
  }
}

function reset(core: Core, message: ResetMessage): void {
  const state = current(core, message, "reset");
  if (state === undefined) {
    return;
  }
  const { table, code } = message;
  let stream = state.table(table);
  if (stream === undefined) {
    core.refuse(message, Code.BadMessage, `task ${message.task} has no table ${table}`);
    return;
  }
  stream.fence.broken = true;
  core.queue.drop(rowsOf(state.task, table), core.dropped);
  if (message.stream !== stream.id) {
    const { name, topic } = stream;
    state.streams.splice(state.streams.indexOf(stream), 1);
    stream.refused = true;
    stream = core.streams.add(state, message.stream, name, topic, FrameKind.Restore, null);
  }
  stream.fence = { broken: false };
  stream.refused = false;
  stream.next = message.nextOffset;
  state.resets.set(table, message.id);
  core.hold.begin(state);
  core.queue.overtake({ type: "reset", task: state.task, table, code, message: message.message });
}

/** Find the living epoch of a message and make the transition, or answer why not. */
function current(
  core: Core,
  message: MessageOf<"restoring" | "restored" | "revoke" | "lost" | "reset">,
  on: On,
): TaskState | undefined {
  const state = core.tasks.get(message.task);
  if (state === undefined || message.epoch !== state.task.epoch || state.ended) {
    return undefined; // stale: it needs no answer
  }
  if (state.failed && on !== "revoke" && on !== "lost") {
    return undefined; // lost is on its way
  }
  const unasked = on === "restoredAll" && state.state !== "restoring" && !state.holding;
  if (unasked || !state.go(on)) {
    const text = `${message.type} of epoch ${message.epoch} is not allowed while it is ${state.state}`;
    core.refuse(message, Code.NotAllowed, text);
    return undefined;
  }
  return state;
}
