/** Stores follow the events of the connection; user code acts on records alone. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryStore, MemoryStores, StoreError, Tables, UsageError } from "../../src/client.js";
import { b, changelog, only, Stage, text } from "./stage.js";

test("restore, reset and read-only tables", async (t) => {
  const s = await Stage.open(t);
  const [fake, task] = await s.assigned("words");
  const opened = await s.worker.expect("opened");
  assert.deepEqual(Object.fromEntries(opened.checkpoints), { counts: null, planes: null });
  await s.restore(fake, "planes", { N1: "Boeing" });
  const planes = s.view(task, "planes");
  assert.equal(planes.find("N1")?.toString(), "Boeing");
  assert.throws(() => planes.write("N1", b("x")), {
    name: UsageError.name,
    message: /'planes' is read-only/,
  });
  s.worker.reset(fake, "planes", 5);
  await s.event("reset");
  const anew = await s.worker.expect("opened");
  assert.deepEqual(Object.fromEntries(anew.checkpoints), { planes: null });
  assert.deepEqual(text(planes.scan()), {});
  await s.restore(fake, "planes", { N2: "Airbus" });
  assert.deepEqual(text(planes.scan()), { N2: "Airbus" });
});

test("global tables are looked up whatever the partition", async (t) => {
  const s = await Stage.open(t);
  for (const [partition, code] of ["IAH", "JFK"].entries()) {
    const fake = s.worker.assign("airports", partition);
    await s.event("assigned");
    await s.restore(fake, "airports", { [code]: `name of ${code}` });
    await s.worker.restored(fake, { wait: false });
    await s.event("restored");
  }
  assert.equal(s.tables.lookup("airports", "JFK")?.toString(), "name of JFK");
  assert.equal(s.tables.lookup("airports", "XXX"), null);
  assert.equal(s.tables.lookup("counts", "JFK"), null);
});

test("revoking is answered after user code has seen it", async (t) => {
  const s = await Stage.open(t);
  const [fake, task] = await s.start();
  const batch = await s.records(fake, "x");
  s.view(task).write("a", b("1"));
  s.worker.revoke(fake);
  await s.event("revoking");
  const commit = await s.commit(batch); // the last one
  assert.deepEqual(changelog(commit), { counts: { a: "1" } });
  await s.worker.expectNothing();
  const following = s.goOn();
  await s.worker.expect("released");
  assert.throws(() => s.tables.of(task), { name: UsageError.name, message: /no open tables/ });
  s.conn.stop();
  await following;
});

test("who calls next() answers revoking with release()", async (t) => {
  const s = await Stage.open(t);
  const [fake, task] = await s.start();
  s.worker.revoke(fake);
  assert.equal((await s.tables.next())?.type, "revoking");
  const following = s.tables.next();
  await s.worker.expectNothing();
  s.tables.release(task);
  await s.worker.expect("released");
  s.conn.stop();
  await following;
});

test("events that are busy stay", async (t) => {
  const s = await Stage.open(t);
  const [fake] = await s.start();
  s.worker.records(fake, "words", [[b("k"), b("x")]]);
  s.worker.assign("airports");
  const event = await s.tables.next((each) => each.type === "records");
  assert.equal(event?.type, "assigned");
  assert.equal((await s.tables.next())?.type, "records");
});

test("a reconnect goes on from the checkpoints", async (t) => {
  const s = await Stage.open(t);
  const [fake, task] = await s.start();
  const batch = await s.records(fake, "x");
  s.view(task).write("a", b("1"));
  await s.commit(batch);
  s.view(task).write("a", b("never committed"));
  await s.worker.cut();
  await s.event("lost");
  s.worker = await s.sidecar.accept();
  const [, again] = await s.assigned("words");
  const { checkpoints } = await s.worker.expect("opened");
  assert.deepEqual(Object.fromEntries(checkpoints), { counts: "v1:counts:2", planes: null });
  assert.deepEqual(text(s.view(again).scan()), { a: "1" });
});

test("a standby is promoted and writes", async (t) => {
  const s = await Stage.open(t);
  const [fake, task] = await s.assigned("words", "standby");
  await s.worker.expect("opened");
  s.worker.restore(fake, "counts", [[b("a"), b("1")]]);
  s.worker.promote(fake, { words: 7 });
  await s.event("restore");
  assert.throws(() => s.view(task).write("a", b("2")), /read-only/);
  const promoted = await s.event("promoted");
  assert.deepEqual([promoted.was, promoted.task.role], [task, "active"]);
  await s.worker.expect("ready");
  assert.throws(() => s.tables.of(task), UsageError);
  const counts = s.view(promoted.task);
  assert.equal(counts.find("a")?.toString(), "1");
  counts.write("a", b("2"));
  assert.equal(counts.find("a")?.toString(), "2");
});

test("a store that fails is reported, and the task comes anew", async (t) => {
  const closed: string[] = [];
  class Stores extends MemoryStores {
    failures = 1;

    override open(...[task, table]: Parameters<MemoryStores["open"]>): MemoryStore {
      if (table === "planes" && this.failures-- > 0) {
        // A message that is too large would end the connection.
        throw new StoreError(`the disk is full${" again".repeat(1_000_000)}`);
      }
      const store = super.open(task, table);
      store.close = () => closed.push(table);
      return store;
    }
  }
  const s = await Stage.open(t, new Stores());
  const [fake, task] = await s.assigned("words");
  const error = await s.worker.expect("error");
  assert.equal(error.message, `the disk is full${" again".repeat(1000)}`.slice(0, 4096));
  assert.deepEqual(
    [error.re, error.code, error.task, error.epoch],
    [1, "store_open_failed", "words/0", 1],
  );
  assert.deepEqual(closed, ["counts"]); // the one that was open already
  assert.throws(() => s.tables.of(task), UsageError);
  s.worker.lose(fake, "store_open_failed");
  await s.event("lost");
  await s.start();
});

test("a store that fails while promoted waits is not ready", async (t) => {
  class Full extends MemoryStore {
    override apply(): void {
      throw new StoreError("the disk is full");
    }
  }
  const s = await Stage.open(t, only(new Full()));
  const [fake] = await s.assigned("words", "standby");
  await s.worker.expect("opened");
  s.worker.restore(fake, "counts", [[b("a"), b("1")]]);
  const now = s.worker.promote(fake); // it is there before the rows are applied
  await s.event("restore");
  await s.event("promoted");
  const error = await s.worker.expect("error");
  assert.ok(error.task === fake.name && [fake.epoch, now.epoch].includes(error.epoch));
  s.worker.lose(now);
  await s.event("lost");
  assert.deepEqual(
    s.worker.pending().filter((each) => "type" in each && each.type === "ready"),
    [],
  );
});

test("records of a task whose store has failed are passed over", async (t) => {
  class Full extends MemoryStore {
    override apply(): void {
      throw new StoreError("the disk is full");
    }
  }
  const s = await Stage.open(t, only(new Full()));
  const [fake] = await s.start();
  s.worker.restore(fake, "planes", [[b("a"), b("1")]]);
  s.worker.records(fake, "words", [[b("k"), b("never seen")]]);
  await s.event("restore");
  const error = await s.worker.expect("error");
  const { stream } = fake.assign.tables.find((each) => each.name === "planes") ?? {};
  assert.deepEqual([error.code, error.stream], ["store_open_failed", stream]);
  s.worker.lose(fake);
  await s.event("lost");
});

test("what is no fault of a store is thrown", async (t) => {
  class Broken extends MemoryStore {
    override apply(): void {
      throw new TypeError("a mistake");
    }
  }
  const s = await Stage.open(t, only(new Broken()));
  const [fake] = await s.assigned("words");
  s.worker.restore(fake, "counts", [[b("a"), b("1")]]);
  await assert.rejects(s.event("restore"), TypeError);
});

test("closing closes all stores, whatever one of them says", async (t) => {
  const closed: MemoryStore[] = [];
  class Closing extends MemoryStore {
    override close(): void {
      closed.push(this);
      throw new StoreError("the disk is full");
    }
  }
  const s = await Stage.open(t, { open: () => new Closing() });
  await s.start();
  {
    using _ = s.tables;
  }
  s.tables.close();
  assert.equal(closed.length, 2);
  assert.equal(s.notices.length, 2);
  assert.ok(s.tables instanceof Tables);
});
