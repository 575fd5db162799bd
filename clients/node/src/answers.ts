/** What user code says about its tasks. Pure. */

import { build, type Changelog, check, type Outcome, type Outputs, stale } from "./commits.js";
import type { Core } from "./core.js";
import { ConnectionLost, UsageError } from "./errors.js";
import { type Answered, impossible, type Question, question } from "./locate.js";
import { type Named, pairs } from "./named.js";
import type { Task } from "./tasks.js";

const SAID = 4096; // characters of what a store's failure says, which may quote a row

/** Answer assigned (every table) or reset (the one table). Throws UsageError. */
export function opened(core: Core, task: Task, checkpoints: Named<string | null>): void {
  const state = core.own(task);
  if (state === undefined) {
    return;
  }
  const given = new Map(pairs(checkpoints));
  const { name, epoch, tables } = task;
  if (state.state === "opening") {
    if (given.size !== tables.size || [...given.keys()].some((each) => !tables.has(each))) {
      throw new UsageError(
        `opened() of task ${name} names the tables ${list(given.keys())}; name all of ${list(tables.keys())}`,
      );
    }
    state.go("opened");
    core.outbox.say({ type: "opened", re: state.request, task: name, epoch, checkpoints: given });
    return;
  }
  for (const [table, checkpoint] of given) {
    const re = state.resets.get(table);
    if (re !== undefined) {
      state.resets.delete(table);
      core.outbox.say({
        type: "opened",
        re,
        task: name,
        epoch,
        checkpoints: new Map([[table, checkpoint]]),
      });
    }
  }
}

/** Answer restored or promoted. */
export function ready(core: Core, task: Task): void {
  const state = core.own(task);
  const re = state?.restored.shift();
  if (state === undefined || re === undefined) {
    return;
  }
  core.outbox.say({ type: "ready", re, task: task.name, epoch: task.epoch });
  if (state.restored.length === 0 && state.go("ready")) {
    state.holding &&= !state.whole;
    core.hold.goOn(core.tasks.values());
  }
}

/** Answer revoking. Leaves behind the commits made before. Throws UsageError. */
export function release(core: Core, task: Task): void {
  const state = core.own(task);
  if (state === undefined) {
    return;
  }
  const { name, epoch } = task;
  if (!state.go("release")) {
    throw new UsageError(
      `release() of task ${name} answers revoking; the task is not being revoked`,
    );
  }
  core.outbox.release(state, { type: "released", re: state.request, task: name, epoch });
}

/** Tell the sidecar that the task cannot go on; it opens the task anew. */
export function fail(core: Core, task: Task, code: string, message: string, table: string): void {
  const state = core.own(task);
  if (state === undefined) {
    return;
  }
  const re = state.state === "opening" ? state.request : (state.resets.get(table) ?? 0);
  state.resets.delete(table);
  core.outbox.say({
    type: "error",
    code,
    message: message.slice(0, SAID),
    re,
    task: task.name,
    epoch: task.epoch,
    stream: state.table(table)?.id ?? 0,
  });
  core.failed(state);
}

/** Queue a commit; done is called once with how it ended. Throws CommitRejected at once. */
export function commit(
  core: Core,
  task: Task,
  sourceNext: Named<number>,
  changelog: Changelog,
  outputs: Outputs,
  done: (outcome: Outcome) => void,
): void {
  const state = core.own(task);
  if (state === undefined || state.failed || core.welcome === null) {
    done(stale(task.name));
    return;
  }
  const { limits } = core.welcome;
  const positions = new Map(pairs(sourceNext));
  check(state, positions, Math.min(2, limits.maxOutstandingCommits));
  const id = core.outbox.nextId;
  const frames = build(state, id, changelog, outputs, limits);
  const { name, epoch } = task;
  const message = { type: "commit", id, task: name, epoch, sourceNext: positions } as const;
  core.outbox.begin({ id, of: state, message, frames, done, started: false });
}

/** Ask who holds a key; done is called once. Throws UsageError at once. */
export function locate(core: Core, asked: Question, done: Answered): void {
  const message = question(core.outbox.nextId, asked);
  if (core.welcome === null) {
    done(new ConnectionLost("the sidecar is not connected; ask again"));
    return;
  }
  const { features, limits } = core.welcome;
  const error = impossible(message, features, core.outbox.questions, limits);
  if (error !== null) {
    done(error);
  } else {
    core.outbox.ask(message, done);
  }
}

function list(names: Iterable<string>): string {
  return [...names].sort().join(", ") || "none";
}
