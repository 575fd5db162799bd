/** FakeSidecar and play(), with programs of the protocol level over a real socket. */

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { WebSocket } from "ws";
import { type Connection, type ConnectOptions, connect } from "../../src/client.js";
import { HandshakeRefused, SidecarUnreachable } from "../../src/errors.js";
import {
  FakeSidecar,
  type FakeSidecarOptions,
  type FakeWorker,
  play,
} from "../../src/testing/index.js";

const DECLARED: ConnectOptions = {
  group: "g",
  sets: [
    { name: "words", sources: ["words"], tables: ["counts", { name: "names", sourceTopic: "n" }] },
  ],
  globals: [{ name: "places", topic: "p" }],
  outputs: ["changes"],
};

const b = (text: string): Buffer => Buffer.from(text);

/** A sidecar and a worker of it. */
async function joined(
  t: TestContext,
  options: FakeSidecarOptions = {},
  given: ConnectOptions = {},
): Promise<{ sidecar: FakeSidecar; worker: FakeWorker; conn: Connection }> {
  const sidecar = await FakeSidecar.listen(options);
  t.after(() => sidecar.close());
  const [conn, worker] = await Promise.all([
    connect({ ...DECLARED, url: sidecar.url, notice: () => {}, ...given }),
    sidecar.accept(),
  ]);
  t.after(() => conn.close());
  return { sidecar, worker, conn };
}

test("from hello to released", async (t) => {
  const { worker, conn } = await joined(t);
  assert.equal(worker.hello.group, "g");
  assert.equal(conn.welcome.session, "c1");
  const task = worker.assign("words", 3, { positions: { words: 5 } });
  assert.deepEqual([task.name, task.epoch], ["words/3", 1]);
  const assigned = await conn.next();
  assert.ok(assigned?.type === "assigned");
  conn.opened(assigned.task, { counts: null, names: "v1:n" });
  const opened = await worker.expect("opened");
  assert.deepEqual(
    opened.checkpoints,
    new Map([
      ["counts", null],
      ["names", "v1:n"],
    ]),
  );
  worker.restore(task, "counts", [
    [b("a"), b("1")],
    [b("b"), null],
  ]);
  const restore = await conn.next();
  assert.ok(restore?.type === "restore");
  assert.deepEqual([restore.batch.checkpoint, restore.batch.nextOffset], ["v1:1:2", 2]);
  const restored = worker.restored(task);
  assert.equal((await conn.next())?.type, "restored");
  conn.ready(assigned.task);
  await restored;
  worker.records(task, "words", [
    [null, b("x")],
    [b("k"), null],
  ]);
  const records = await conn.next();
  assert.ok(records?.type === "records");
  assert.deepEqual([records.batch.baseOffset, records.batch.nextOffset], [5, 7]);
  const done = conn.commit(records, {
    changelog: { counts: [[b("a"), b("2")]] },
    outputs: {
      changes: [
        [b("a"), b("2")],
        [null, null],
      ],
    },
  });
  const commit = await worker.commit();
  assert.deepEqual(commit.message.sourceNext, new Map([["words", 7]]));
  assert.deepEqual(commit.changelog, new Map([["counts", [[b("a"), b("2")]]]]));
  assert.deepEqual(
    commit.outputs,
    new Map([
      [
        "changes",
        [
          [b("a"), b("2")],
          [null, null],
        ],
      ],
    ]),
  );
  worker.committed(commit);
  assert.deepEqual(
    (await done).checkpoints,
    new Map([["counts", `v1:counts:${commit.message.id}`]]),
  );
  worker.revoke(task);
  assert.equal((await conn.next())?.type, "revoking");
  conn.release(assigned.task);
  assert.equal((await worker.expect("released")).task, "words/3");
  await worker.expectNothing();
});

test("standby, promoted, demoted, reset, lost, a global table", async (t) => {
  const { worker, conn } = await joined(t);
  const places = worker.assign("places");
  assert.equal(places.assign.role, "global");
  const standby = worker.assign("words", 0, { role: "standby" });
  const roles: string[] = [];
  for (let i = 0; i < 2; i++) {
    const event = await conn.next();
    assert.ok(event?.type === "assigned");
    roles.push(`${event.task.name} ${event.task.role}`);
    conn.opened(
      event.task,
      Object.fromEntries([...event.task.tables.keys()].map((t) => [t, null])),
    );
  }
  assert.deepEqual(roles, ["places/0 global", "words/0 standby"]);
  const active = worker.promote(standby, { words: 2 });
  const promoted = await conn.next();
  assert.ok(promoted?.type === "promoted");
  assert.deepEqual([active.epoch, promoted.task.sources.get("words")?.position], [2, 2]);
  conn.ready(promoted.task);
  await worker.expect("ready");
  worker.reset(active, "names", 4);
  assert.equal((await conn.next())?.type, "reset");
  const copy = worker.demote(active);
  assert.equal((await conn.next())?.type, "demoted");
  assert.deepEqual([copy.epoch, copy.assign.role], [3, "standby"]);
  worker.lose(copy);
  assert.equal((await conn.next())?.type, "lost");
});

test("credit is given back unless it is withheld", async (t) => {
  const { worker, conn } = await joined(t, { credit: { connection: 1 << 20, stream: 10 } });
  const begun = worker.start("words");
  const assigned = await conn.next();
  assert.ok(assigned?.type === "assigned");
  conn.opened(assigned.task, { counts: null, names: null });
  assert.equal((await conn.next())?.type, "restored");
  conn.ready(assigned.task);
  const task = await begun;
  worker.records(task, "words", [[b("k"), b("v")]]);
  const records = await conn.next();
  assert.ok(records?.type === "records");
  // Its window is 10 bytes: with one frame on its way another has to wait.
  const outputs = { changes: [[b("k"), b("v")]] } as const;
  worker.withholdCredit = true;
  const first = conn.commit(records, { outputs });
  worker.committed(await worker.commit());
  await first;
  const second = conn.commit(records, { outputs });
  await worker.expectNothing();
  worker.send({ type: "credit", connection: 2 << 20, streams: new Map([[4, 1000]]) });
  worker.committed(await worker.commit());
  await second;
  void conn.next(); // the batch is done with, and credited
  await worker.until(() => worker.granted.streams.size > 0);
  assert.ok(worker.granted.connection > 1 << 20);
});

test("a token, and a status for every handshake", async (t) => {
  const { sidecar } = await joined(t, { token: "secret" }, { token: "secret" });
  const wrong = connect({ ...DECLARED, url: sidecar.url, token: "other" });
  await Promise.all([assert.rejects(wrong, HandshakeRefused), sidecar.refused()]);
  sidecar.refuseWith = 503;
  const given = { ...DECLARED, url: sidecar.url, token: "secret", connectTimeoutMs: 10 };
  await assert.rejects(connect(given), SidecarUnreachable);
  assert.ok(sidecar.refusals >= 2);
});

test("who asks for no subprotocol is no worker", async (t) => {
  const sidecar = await FakeSidecar.listen();
  t.after(() => sidecar.close());
  const websocket = new WebSocket(sidecar.url);
  const answered = new Promise((resolve) => {
    websocket.on("unexpected-response", (_request, response) => resolve(response.statusCode));
  });
  assert.equal(await answered, 400);
  websocket.on("error", () => {});
  websocket.terminate();
});

test("a unix socket", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "pillion-"));
  t.after(() => rmSync(directory, { recursive: true }));
  const { sidecar, worker } = await joined(t, { path: join(directory, "s") });
  assert.equal(sidecar.url, `unix:${join(directory, "s")}`);
  await worker.expectNothing();
});

test("closed with a code, cut, and closed by the worker", async (t) => {
  const { sidecar, worker, conn } = await joined(t);
  await worker.cut();
  assert.ok(worker.ended);
  const second = await sidecar.accept();
  assert.equal(await worker.closed(), null);
  await second.close(1001);
  const third = await sidecar.accept();
  await conn.close();
  assert.equal(await third.closed(), 1000);
  await assert.rejects(third.expect("commit"), /went away before there was a commit/);
});

test("what does not come is told, and what comes too much", async (t) => {
  const { sidecar, worker, conn } = await joined(t, { timeoutMs: 20 });
  await assert.rejects(worker.expect("commit"), {
    name: "AssertionError",
    message: "there is no commit of the worker within 0.02 s",
  });
  await assert.rejects(sidecar.accept(), /there is no worker that connects within 0.02 s/);
  assert.throws(() => worker.assign("other"), /the worker has no set other/);
  worker.assign("words");
  const assigned = await conn.next();
  assert.ok(assigned?.type === "assigned");
  conn.opened(assigned.task, { counts: null, names: null });
  await worker.until(() => worker.pending().length > 0);
  await assert.rejects(worker.expectNothing(), /the worker says \{"type":"opened"/);
});

test("a worker that breaks the protocol is told of", async (t) => {
  const sidecar = await FakeSidecar.listen();
  t.after(() => sidecar.close());
  const websocket = new WebSocket(sidecar.url, ["pillion.v1"]);
  websocket.on("open", () => websocket.send('{"type":"hello"}'));
  await assert.rejects(sidecar.accept(), /broke the protocol .*hello\.id is missing/);
});

test("play gives records and keeps what is committed", async (t) => {
  const sidecar = await FakeSidecar.listen();
  t.after(() => sidecar.close());
  const [played] = await Promise.all([
    play(
      sidecar,
      {
        words: [
          [b("a"), b("1")],
          [b("b"), b("2")],
          [b("a"), b("3")],
          [null, b("x")],
          [b("b"), null],
        ],
      },
      { tables: { counts: [[b("z"), b("9")]], places: [[b("o"), b("Oslo")]] }, batch: 2 },
    ),
    echo(sidecar.url),
  ]);
  assert.deepEqual(
    played.tables,
    new Map([
      [
        "counts",
        new Map([
          ["z", b("9")],
          ["a", b("3")],
        ]),
      ],
    ]),
  );
  assert.deepEqual(
    played.outputs,
    new Map([
      [
        "changes",
        [
          [b("a"), b("1")],
          [b("b"), b("2")],
          [b("a"), b("3")],
          [null, b("x")],
          [b("b"), null],
        ],
      ],
    ]),
  );
  assert.deepEqual(played.positions, new Map([["words", 5]]));
  assert.equal(played.commits, 3);
});

/** Writes each record to its table and to the output, until the sidecar has drained. */
async function echo(url: string): Promise<void> {
  await using conn = await connect({ ...DECLARED, url });
  for await (const event of conn) {
    if (event.type === "assigned") {
      conn.opened(
        event.task,
        Object.fromEntries([...event.task.tables.keys()].map((t) => [t, null])),
      );
    } else if (event.type === "restored") {
      conn.ready(event.task);
    } else if (event.type === "records") {
      const pairs = Array.from(event.batch, ({ key, value }) => [key, value] as const);
      const counts = pairs.flatMap(([key, value]) => (key ? [[key, value] as const] : []));
      await conn.commit(event, { changelog: { counts }, outputs: { changes: pairs } });
    }
  }
}
