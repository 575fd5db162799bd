/** The steps of a scenario about tasks, records and commits. */

import { isDeepStrictEqual } from "node:util";
import { boolean, integer, list, map, maybe, text, word } from "../../schema.js";
import { type Epoch, type Stream, split } from "./epoch.js";
import { Fault, note } from "./fault.js";
import { number, type Stored } from "./kafka.js";
import * as moves from "./moves.js";
import { type Player, SOURCE } from "./player.js";
import { type Verb, verb } from "./scenario.js";
import { data, position, reading, shown, stored } from "./values.js";

const MOST_FILL = 64 << 20; // bytes that are sent to a worker that gives credit without an end

const size = integer(0);
const task = text();
const role = word("active", "standby", "global");
const records = list(stored);
const hold = word("hold", "go");
const pair = reading((found, at) => list(data).read(found, at));

/** Wait for the answer to assign, or to every reset. */
function opened(p: Player, of: string): Promise<void> {
  const epoch = moves.living(p.now, of);
  const met = () => epoch.state !== "opening" && epoch.resets.size === 0;
  return p.sidecar.until(`opened for ${of}`, met);
}

function ready(p: Player, of: string): Promise<void> {
  const epoch = moves.living(p.now, of);
  const met = () => epoch.queue.length === 0 && epoch.state === "running";
  return p.sidecar.until(`ready for ${of}`, met);
}

/** Send what the topics of tables hold. */
function restore(p: Player, of: string, how: moves.RestoreOptions & { table?: string } = {}): void {
  const { table = "", base, ...rest } = how;
  const chosen = [...moves.living(p.now, of).tables.values()].filter(
    ({ name }) => table === "" || table === name,
  );
  for (const [i, stream] of chosen.entries()) {
    moves.restore(p.now, stream, { ...rest, base: i === 0 ? base : undefined });
  }
}

async function restored(p: Player, of: string, wait = true): Promise<void> {
  moves.restored(p.now, moves.living(p.now, of));
  if (wait) {
    await ready(p, of);
  }
}

/** Send source records from where the source is. */
function feed(p: Player, source: Stream, some: readonly Stored[], base?: number, next?: number) {
  const [placed, end] = number(some, base ?? source.position);
  moves.feed(p.now, source, placed, next ?? end, base);
}

function checkNewest(p: Player, epoch: Epoch): void {
  for (const stream of epoch.tables.values()) {
    const last = p.sidecar.kafka.newest(stream.topic, epoch.partition);
    if (stream.position !== 0 && stream.position !== last) {
      const want = `the newest checkpoint of ${stream.name}, at ${last}, or null`;
      throw new Fault(want, `an older one, at ${stream.position}`);
    }
  }
}

export const STEPS: ReadonlyMap<string, Verb> = new Map<string, Verb>([
  // Say what a log holds.
  [
    "topic",
    verb(
      text(),
      { records: maybe(records), end: maybe(size), anew: maybe(boolean) },
      (p, name, { records: some = [], end = 0, anew = false }) => {
        const log = p.log(name);
        if (anew) {
          log.records = [];
          log.end = 0;
        }
        log.append(some);
        log.end = Math.max(log.end, end);
      },
    ),
  ],

  // Say a committed position.
  [
    "position",
    verb(task, { at: size }, (p, of, { at }) => p.sidecar.kafka.moveTo(SOURCE, split(of)[1], at)),
  ],

  // Give a task.
  [
    "assign",
    verb(
      task,
      { role: maybe(role), wait: maybe(boolean), newest: maybe(boolean) },
      async (p, of, { role: as = "active", wait = true, newest = false }) => {
        const epoch = moves.assign(p.now, of, as);
        if (wait) {
          await opened(p, of);
          if (newest) {
            checkNewest(p, epoch);
          }
        }
      },
    ),
  ],

  ["opened", verb(task, {}, opened)],

  [
    "restore",
    verb(
      task,
      {
        table: maybe(text()),
        perFrame: maybe(size),
        until: maybe(size),
        base: maybe(size),
        empty: maybe(boolean),
      },
      (p, of, { table = "", ...how }) => restore(p, of, { table, ...how }),
    ),
  ],

  // Say that the tables are whole.
  ["restored", verb(task, { wait: maybe(boolean) }, (p, of, { wait }) => restored(p, of, wait))],

  ["ready", verb(task, {}, ready)],

  // Assign, restore and say restored, with their waits.
  [
    "open",
    verb(
      task,
      { role: maybe(role), perFrame: maybe(size) },
      async (p, of, { role: as, perFrame }) => {
        moves.assign(p.now, of, as);
        await opened(p, of);
        restore(p, of, { perFrame });
        await restored(p, of);
      },
    ),
  ],

  // Ask for a task.
  [
    "revoke",
    verb(task, { code: maybe(text()), deadlineMs: maybe(size) }, (p, of, { code, deadlineMs }) =>
      moves.revoke(p.now, moves.living(p.now, of), code, deadlineMs),
    ),
  ],

  [
    "released",
    verb(task, {}, (p, of) => {
      const { tasks } = p.now;
      const met = () => ["released", "over"].includes(tasks.get(of)?.state ?? "");
      return p.sidecar.until(`released for ${of}`, met);
    }),
  ],

  // End an epoch.
  [
    "lost",
    verb(task, { code: maybe(text()) }, (p, of, { code }) =>
      moves.lose(p.now, moves.living(p.now, of), code),
    ),
  ],

  // Make a standby the active.
  [
    "promote",
    verb(task, { wait: maybe(boolean) }, async (p, of, { wait = true }) => {
      moves.promote(p.now, moves.living(p.now, of));
      if (wait) {
        await ready(p, of);
      }
    }),
  ],

  // Make an active a standby.
  [
    "demote",
    verb(task, {}, (p, of) => {
      moves.demote(p.now, moves.living(p.now, of));
    }),
  ],

  // Have one store wiped.
  [
    "reset",
    verb(
      task,
      { table: text(), nextOffset: maybe(size), wait: maybe(boolean) },
      async (p, of, { table, nextOffset, wait = true }) => {
        const epoch = moves.living(p.now, of);
        const stream = epoch.tables.get(table);
        if (stream === undefined) {
          throw new RangeError(`task ${of} has no table '${table}'`);
        }
        moves.reset(p.now, epoch, stream, nextOffset);
        if (wait) {
          await opened(p, of);
        }
      },
    ),
  ],

  // Send source records.
  [
    "feed",
    verb(
      task,
      { records: maybe(records), base: maybe(size), next: maybe(size), times: maybe(size) },
      (p, of, { records: some = [], base, next, times = 1 }) => {
        for (let i = 0; i < times; i++) {
          feed(p, p.source(of), some, base, next);
        }
      },
    ),
  ],

  // Send what the task's source holds from its position on.
  [
    "deliver",
    verb(task, { perFrame: maybe(size) }, (p, of, { perFrame }) =>
      moves.deliver(p.now, p.source(of), perFrame),
    ),
  ],

  // Send frames of one record until the worker's credit is used up.
  [
    "fill",
    verb(task, { key: maybe(data), bytes: size }, (p, of, { key = null, bytes }) => {
      const source = p.source(of);
      let sent = 0;
      while (p.now.maySend(source) && source.epoch.queue.length === 0) {
        sent += bytes;
        if (sent > MOST_FILL) {
          throw new Fault(`a window of at most ${MOST_FILL} bytes`, "credit for more");
        }
        feed(p, source, [{ key, value: Buffer.alloc(bytes) }]);
      }
    }),
  ],

  // Wait for a position and compare what has been committed up to it.
  [
    "committed",
    verb(
      task,
      {
        position,
        most: maybe(size),
        counts: maybe(map(data)),
        changes: maybe(list(pair)),
      },
      async (p, of, { position: written, most, counts, changes }) => {
        const partition = split(of)[1];
        const want = p.position(of, written);
        const what = `commits of task ${of} up to position ${want}`;
        const at = () => p.sidecar.kafka.position(SOURCE, partition);
        try {
          await p.sidecar.until(what, () => at() >= want);
        } catch (error) {
          note(error, `committed so far: ${at()}`);
          throw error;
        }
        if (most !== undefined && at() > most) {
          throw new Fault(`${what} and not past ${most}`, `position ${at()}`);
        }
        if (changes !== undefined) {
          const lines = (pairs: readonly (readonly (Uint8Array | null)[])[]) =>
            pairs.map((each) => each.map(shown).join(": "));
          const [wanted, came] = [lines(changes), lines(p.changes(of))];
          if (!isDeepStrictEqual(wanted, came)) {
            throw new Fault(`in changes: ${wanted.join(", ")}`, came.join(", "));
          }
        }
        if (counts !== undefined) {
          const lines = (rows: Iterable<readonly [string, Uint8Array | null]>) =>
            Array.from(rows, ([key, value]) => `${key}: ${shown(value)}`).sort();
          const named = Array.from(counts, ([key, value]) => {
            return [Buffer.from(key).toString("latin1"), value] as const;
          });
          const [wanted, came] = [lines(named), lines(p.log(`counts/${partition}`).rows())];
          if (!isDeepStrictEqual(wanted, came)) {
            throw new Fault(`in the changelog of counts: ${wanted.join(", ")}`, came.join(", "));
          }
        }
      },
    ),
  ],

  // Hold back the answers to commits, or give those that were held and go on.
  [
    "answers",
    verb(hold, {}, (p, how) => {
      p.sidecar.answersHeld = how === "hold";
      for (const commit of how === "hold" ? [] : [...p.now.held]) {
        p.now.answer(commit, "committed");
      }
    }),
  ],

  // Wait for a whole commit whose answer is held.
  [
    "commit",
    verb(task, { position }, (p, of, { position: written }) => {
      const session = p.now;
      const want = p.position(of, written);
      return p.sidecar.until(`a commit of task ${of} up to position ${want}`, () =>
        session.held.some(
          ({ epoch, next }) => epoch.task === of && (next.get(SOURCE) ?? -1) >= want,
        ),
      );
    }),
  ],

  // Answer every held commit of a task, in order.
  [
    "answer",
    verb(
      task,
      {
        with: word("committed", "aborted", "unknown", "stale", "error"),
        code: maybe(text()),
        lands: maybe(boolean),
      },
      (p, of, { with: ending, code, lands }) => {
        const mine = p.now.held.filter(({ epoch }) => epoch.task === of);
        if (mine.length === 0) {
          throw new RangeError(`no commit of ${of} is held`);
        }
        for (const commit of mine) {
          p.now.answer(commit, ending, { code, lands });
        }
      },
    ),
  ],

  // Hold back the credit for what the worker sends, or give what was held and go on.
  [
    "credit",
    verb(hold, {}, (p, how) => {
      p.sidecar.creditHeld = how === "hold";
      if (how === "go") {
        const { owed } = p.sidecar;
        p.sidecar.owed = [];
        for (const stream of owed) {
          p.now.refund(stream);
        }
      }
    }),
  ],

  // Wait until every byte that was sent has been granted anew.
  [
    "credited",
    verb(boolean, {}, (p) => {
      const session = p.now;
      return p.sidecar.until("credit for every byte that was sent", () => session.credited);
    }),
  ],

  // See that no more than the first frames have been granted anew.
  [
    "granted",
    verb(task, { most: size }, (p, of, { most }) => {
      const { sizes, limit, window } = p.source(of);
      const allowed = sizes.slice(0, most).reduce((sum, each) => sum + each, 0);
      if (limit - window > allowed) {
        const want = `credit for at most ${most} frames (${allowed} bytes)`;
        throw new Fault(want, `for ${limit - window} bytes`);
      }
    }),
  ],
]);
