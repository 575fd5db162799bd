/** What a worker's declarations add up to, and each mistake in one sentence. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { UsageError } from "../../src/errors.js";
import { bytes, int, str } from "../../src/serdes/index.js";
import { Declarations } from "../../src/worker/declarations.js";
import type { Output, Topic } from "../../src/worker/declared.js";
import { deadLetter, skip } from "../../src/worker/policy.js";
import { checkOutput, type Topology, topology } from "../../src/worker/topology.js";

class Worker extends Declarations {
  topology(): Topology {
    return topology(this.declared);
  }

  start(): void {
    this.started = true;
  }

  checkOutput(output: Output<Uint8Array, Uint8Array>): void {
    checkOutput(this.declared, deadLetter(output), "the worker");
  }
}

const texts = { key: str(), value: str() };
const raw = { key: bytes(), value: bytes() };

function handle(): void {}
function one(_record: unknown, _ctx: unknown): void {}
function tick(): void {}

function refused(run: () => unknown, says: string): void {
  assert.throws(run, (error) => {
    assert.ok(error instanceof UsageError, String(error));
    assert.equal(error.message, `${says} (bad_declaration)`);
    return true;
  });
}

test("what is declared is told to the sidecar", () => {
  const worker = new Worker("g");
  const orders = worker.topic("orders", texts);
  const payments = worker.topic("payments", { key: str(), value: int() });
  const clicks = worker.topic("clicks", raw);
  const open = worker.table("open", { key: str(), value: int(), changelog: "opened" });
  const users = worker.sourceTable("users", { ...texts, topic: "users-v2" });
  const places = worker.globalTable("places", texts);
  worker.output("out", texts);
  worker.join(orders, payments);
  worker.process(orders, { tables: [open, places] }, handle);
  worker.each(payments, { tables: [open, users] }, one);
  worker.process(clicks, handle);
  const made = worker.topology();
  assert.deepEqual(made.declaration, {
    sets: [
      {
        name: "orders",
        sources: ["orders", "payments"],
        tables: [
          { name: "open", changelog: "opened" },
          { name: "users", sourceTopic: "users-v2" },
        ],
      },
      { name: "clicks", sources: ["clicks"], tables: [] },
    ],
    sources: [],
    tables: [],
    globals: [{ name: "places", topic: "places" }],
    outputs: ["out"],
    group: "g",
  });
  assert.deepEqual(made.sets.get("orders")?.tables, [open, users]);
  assert.deepEqual([...(made.sets.get("orders")?.handlers.keys() ?? [])], ["orders", "payments"]);
});

test("a global table called like a topic", () => {
  const worker = new Worker("g");
  const topic = worker.topic("planes", texts);
  const planes = worker.globalTable("planes", texts);
  worker.process(topic, { tables: [planes] }, handle);
  const made = worker.topology();
  assert.deepEqual([...made.sets.keys()], ["planes-set"]);
  assert.deepEqual(
    made.declaration.sets.map(({ name }) => name),
    ["planes-set"],
  );
});

test("joined over others they are one set", () => {
  for (const joins of ["cb ab", "ab bc", "ac cb", "abc", "ab ba cb", "bc ab ca"]) {
    const worker = new Worker("g");
    const topics = new Map([..."abc"].map((name) => [name, worker.topic(name, texts)]));
    for (const topic of topics.values()) {
      worker.process(topic, handle);
    }
    for (const join of joins.split(" ")) {
      worker.join(...[...join].map((name) => topics.get(name) ?? assert.fail()));
    }
    assert.deepEqual(
      worker.topology().declaration.sets.map(({ name, sources }) => [name, sources]),
      [["a", ["a", "b", "c"]]],
      joins,
    );
  }
});

test("four topics in two pairs, joined later", () => {
  const worker = new Worker("g");
  const [a, b, c, d] = [..."abcd"].map((name) => worker.topic(name, texts));
  assert.ok(a && b && c && d);
  for (const topic of [a, b, c, d]) {
    worker.process(topic, handle);
  }
  worker.join(a, c);
  worker.join(b, d);
  worker.join(d);
  const sets = () => worker.topology().declaration.sets.map(({ sources }) => sources.join(""));
  assert.deepEqual(sets(), ["ac", "bd"]);
  worker.join(d, c);
  assert.deepEqual(sets(), ["abcd"]);
});

test("a table that only what runs by time uses", () => {
  const worker = new Worker("g");
  const a = worker.topic("a", texts);
  const b = worker.topic("b", texts);
  const table = worker.table("t", texts);
  const places = worker.globalTable("places", texts);
  worker.process(a, handle);
  worker.process(b, handle);
  worker.every({ seconds: 1, topic: b, tables: [table, places] }, tick);
  worker.every({ minutes: 2, hours: 1, tables: [table] }, tick);
  const made = worker.topology().sets.get("b") ?? assert.fail();
  assert.deepEqual(made.tables, [table]);
  assert.deepEqual(
    made.tickers.map(({ everyMs, tables }) => [everyMs, tables]),
    [
      [1000, [table, places]],
      [3_720_000, [table]],
    ],
  );
});

test("what runs by time has all tables of its set unless it names some", () => {
  const worker = new Worker("g");
  const a = worker.topic("a", texts);
  const table = worker.table("t", texts);
  const places = worker.globalTable("places", texts);
  worker.process(a, { tables: [table, places] }, handle);
  worker.every({ seconds: 1 }, tick);
  const [ticker] = worker.topology().sets.get("a")?.tickers ?? [];
  assert.deepEqual(ticker?.tables, [table, places]);
});

type Texts = Topic<string, string>;
type Mistake = (worker: Worker, a: Texts, b: Texts) => void;

const both: Mistake = (worker, a, b) => {
  worker.process(a, handle);
  worker.process(b, handle);
};

const MISTAKES: Readonly<Record<string, [says: string, mistake: Mistake]>> = {
  "a shared table": [
    "table 't' is used with the topics 'a' and 'b', which are two sets; read them together with " +
      "join(), or keep a table for each",
    (worker, a, b) => {
      const tables = [worker.table("t", texts)];
      worker.process(a, { tables }, handle);
      worker.process(b, { tables }, handle);
    },
  ],
  "no handler": [
    "topic 'b' has no handler; give it one with process() or each(), or leave it out",
    (worker, a) => worker.process(a, handle),
  ],
  "two handlers": [
    "topic 'a' has two handlers, handle and one; let one call the other",
    (worker, a, b) => {
      both(worker, a, b);
      worker.each(a, one);
    },
  ],
  "two handlers without names": [
    "topic 'a' has two handlers; let one call the other",
    (worker, a) => {
      worker.each(a, () => {});
      worker.each(a, () => {});
    },
  ],
  "a table without use": [
    "table 't' is used by no handler; name it in tables: [...] of one",
    (worker, a, b) => {
      worker.table("t", texts);
      both(worker, a, b);
    },
  ],
  "a table of another worker": [
    "handle uses the Table 't', which is no table of this worker; make it with table()",
    (worker, a, b) => {
      worker.process(a, { tables: [new Worker().table("t", texts)] }, handle);
      worker.process(b, handle);
    },
  ],
  "a topic of another worker": [
    "handle handles the Topic 'c', which topic() of this worker did not make",
    (worker, a, b) => {
      both(worker, a, b);
      worker.process(new Worker().topic("c", texts), handle);
    },
  ],
  "a topic of another worker by time": [
    "every() of tick names the Topic 'c', which topic() of this worker did not make",
    (worker, a, b) => {
      both(worker, a, b);
      worker.every({ seconds: 1, topic: new Worker().topic("c", texts) }, tick);
    },
  ],
  "dead letters of another worker": [
    "the dead letters of one go to the Output 'dlq', which output() of this worker did not make",
    (worker, a, b) => {
      worker.each(a, { onError: deadLetter(new Worker().output("dlq", raw)) }, one);
      worker.process(b, handle);
    },
  ],
  "a join with a topic of another worker": [
    "join() names the Topic 'c', which topic() of this worker did not make",
    (worker, a, b) => {
      both(worker, a, b);
      worker.join(a, new Worker().topic("c", texts));
    },
  ],
  "time for two sets": [
    "every() of tick runs once per task of a set, and there are 2 sets; name the topic or tables " +
      "of one",
    (worker, a, b) => {
      both(worker, a, b);
      worker.every({ seconds: 1 }, tick);
    },
  ],
  "tables of two sets by time": [
    "every() of tick runs once per task of a set, and there are 2 sets; name the topic or tables " +
      "of one",
    (worker, a, b) => {
      const [one, two] = [worker.table("one", texts), worker.table("two", texts)];
      worker.process(a, { tables: [one] }, handle);
      worker.process(b, { tables: [two] }, handle);
      worker.every({ seconds: 1, topic: a, tables: [two] }, tick);
    },
  ],
  "no time": [
    "every() of tick needs a time of more than 0",
    (worker, a, b) => {
      both(worker, a, b);
      worker.every({ topic: a }, tick);
    },
  ],
  "an output twice": [
    "the output 'o' is declared twice; declare it once and use what comes back",
    (worker) => {
      worker.output("o", texts);
      worker.output("o", texts);
    },
  ],
  "a table called like another one": [
    "the table 't' is declared twice; declare it once and use what comes back",
    (worker) => {
      worker.table("t", texts);
      worker.globalTable("t", texts);
    },
  ],
  "a bad name": [
    "'no way' is no name; use 1 to 249 letters, digits, dots, _ and -",
    (worker, a, b) => {
      both(worker, a, b);
      worker.output("no way", texts);
    },
  ],
};

for (const [name, [says, mistake]] of Object.entries(MISTAKES)) {
  test(`refused: ${name}`, () => {
    const worker = new Worker("g");
    const [a, b] = [worker.topic("a", texts), worker.topic("b", texts)];
    refused(() => {
      mistake(worker, a, b);
      worker.topology();
    }, says);
  });
}

test("a worker without topics", () => {
  refused(
    () => new Worker("g").topology(),
    "there is no topic; name one with topic() and give it a handler",
  );
});

test("dead letters of the whole worker go to an output of it", () => {
  const worker = new Worker("g");
  worker.checkOutput(worker.output("mine", raw));
  refused(
    () => worker.checkOutput(new Worker().output("dlq", raw)),
    "the dead letters of the worker go to the Output 'dlq', which output() of this worker did not " +
      "make",
  );
});

test("nothing is declared while the worker runs", () => {
  const worker = new Worker("g");
  const topic = worker.topic("a", texts);
  worker.start();
  const calls: [() => unknown, string][] = [
    [() => worker.table("late", texts), "the table 'late'"],
    [() => worker.topic("late", texts), "the topic 'late'"],
    [() => worker.output("late", texts), "the output 'late'"],
    [() => worker.each(topic, { onError: skip() }, one), "one"],
    [() => worker.process(topic, () => undefined), "the handler of 'a'"],
    [() => worker.every({ seconds: 5 }, () => undefined), "the function of every(5 s)"],
    [() => worker.join(topic), "join()"],
  ];
  for (const [call, what] of calls) {
    refused(call, `${what} is declared while the worker runs; declare it before`);
  }
});
