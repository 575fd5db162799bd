/** The queue between core and user code: what overtakes what. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Event } from "../src/events.js";
import { EventQueue, uselessAfterEnd } from "../src/queue.js";
import type { Task } from "../src/tasks.js";
import { Random } from "./random.js";

function task(name: string, epoch: number): Task {
  const none = { tables: new Map(), sources: new Map(), outputs: new Map() };
  return { name, set: name, partition: 0, role: "active", epoch, ...none };
}

function restored(of: Task): Event {
  return { type: "restored", task: of };
}

function lost(of: Task) {
  return { type: "lost", task: of, code: "fenced", message: "" } as const;
}

function taken(queue: EventQueue): Event[] {
  const events: Event[] = [];
  for (let event = queue.take(); event !== null; event = queue.take()) {
    events.push(event);
  }
  return events;
}

test("a new task does not wait for the records of others", () => {
  const queue = new EventQueue();
  const [busy, fresh] = [task("busy/0", 1), task("new/0", 2)];
  const backlog = [restored(busy), restored(busy), restored(busy)]; // anything that waits in order
  for (const event of backlog) {
    queue.put(event);
  }
  queue.put({ type: "assigned", task: fresh });
  queue.overtake({ type: "revoking", task: fresh, deadlineMs: 1000, code: "rebalance" });
  assert.equal(queue.size, 5);
  const [first, second, ...rest] = taken(queue);
  assert.deepEqual([first?.type, second?.type], ["assigned", "revoking"]);
  assert.deepEqual(rest, backlog);
});

test("a new epoch stays behind the end of the one before", () => {
  const queue = new EventQueue();
  const [other, old, fresh] = [task("other/0", 1), task("same/0", 2), task("same/0", 3)];
  const dropped: Event[] = [];
  queue.put(restored(other));
  queue.put(restored(old));
  queue.put({ type: "demoted", task: old, was: old }); // stays when the epoch ends, behind others
  queue.drop(uselessAfterEnd(old), (event) => dropped.push(event));
  queue.overtake(lost(old));
  queue.put({ type: "assigned", task: fresh });
  assert.deepEqual(dropped, [restored(old)]);
  assert.deepEqual(
    taken(queue).map((event) => event.type),
    ["restored", "demoted", "lost", "assigned"],
  );
  assert.equal(queue.size, 0);
});

test("what is busy stays, and nothing of its task passes it", () => {
  const queue = new EventQueue();
  const [mine, other] = [task("mine/0", 1), task("other/0", 2)];
  const events: Event[] = [
    restored(mine),
    { type: "demoted", task: mine, was: mine },
    restored(mine),
    restored(other),
  ];
  for (const event of events) {
    queue.put(event);
  }
  const busy = (event: Event): boolean => event.type === "demoted";
  const first = [queue.take(busy), queue.take(busy), queue.take(busy)];
  assert.deepEqual(first, [events[0], events[3], null]);
  const fresh: Event = { type: "assigned", task: task("new/0", 3) };
  queue.overtake(lost(mine));
  queue.put(fresh);
  assert.deepEqual([queue.take(busy), queue.take(busy)], [fresh, null]);
  assert.deepEqual(taken(queue), [events[1], events[2], lost(mine)]);
});

test("events of no task keep their place", () => {
  const queue = new EventQueue();
  const waiting: Event = { type: "waiting", code: "ok", message: "" };
  queue.put(waiting);
  queue.put(restored(task("t/0", 1)));
  assert.deepEqual(
    taken(queue).map((event) => event.type),
    ["waiting", "restored"],
  );
});

test("what waits is not looked at again and again", () => {
  const queue = new EventQueue();
  const [waiting, other] = [task("waiting/0", 1), task("other/0", 1)];
  for (const each of [waiting, other]) {
    for (let i = 0; i < 500; i++) {
      queue.put(restored(each));
    }
  }
  let looks = 0;
  const busy = (event: Event): boolean => {
    looks += 1;
    return "task" in event && event.task === waiting;
  };
  while (queue.take(busy) !== null) {}
  assert.equal(queue.size, 500);
  assert.ok(looks < 2000, `${looks} looks`);
});

test("events of a task leave in order, whatever is put, dropped and busy", () => {
  for (let seed = 0; seed < 200; seed++) {
    const [random, queue] = [new Random(seed), new EventQueue()];
    const tasks = [task("t/0", 1), task("t/1", 1), task("t/2", 1)];
    const due = new Map<string, Event[]>(tasks.map(({ name }) => [name, []]));
    const of = (each: Task): Event[] => due.get(each.name) ?? [];
    for (let step = 0; step < 60; step++) {
      const [each, what] = [random.pick(tasks), random.next()];
      if (what < 0.4) {
        const event = restored(each);
        queue.put(event);
        of(each).push(event);
      } else if (what < 0.55) {
        const event = lost(each);
        queue.overtake(event);
        of(each).push(event);
      } else if (what < 0.6) {
        queue.drop(uselessAfterEnd(each), (event) => {
          assert.equal(
            of(each).find((other) => other.type === "restored"),
            event,
          );
          of(each).splice(of(each).indexOf(event), 1);
        });
      } else {
        const busy = (event: Event): boolean =>
          event.type === "restored" && event.task === each && what < 0.9;
        const got = queue.take(busy);
        if (got !== null) {
          assert.ok("task" in got && got === of(got.task).shift(), `seed ${seed}`);
        }
      }
    }
    const left = [...due.values()].reduce((sum, events) => sum + events.length, 0);
    assert.equal(queue.size, left);
  }
});
