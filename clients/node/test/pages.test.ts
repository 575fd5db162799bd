/**
 * docs/node.md and docs/migrating-from-kafkajs.md: their programs run, and they are complete. Their
 * commands, and what needs a Kafka, run in internal/journeys.
 */

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import type * as Pillion from "../src/index.js";
import type * as Testing from "../src/testing/index.js";
import { blocks, files, Project, page, ROOT } from "./project.js";

const NODE = page("docs/node.md");
const KAFKAJS = page("docs/migrating-from-kafkajs.md");
const [TUTORIAL = "", REFERENCE = ""] = NODE.split("\n# Reference\n");

type Any = Pillion.Topic<unknown, unknown> & Pillion.Output<unknown, unknown>;
interface Reference {
  readonly worker: Pillion.Worker;
  readonly degrees: Any;
  readonly clicks: Any;
  readonly orders: Any;
  readonly visits: Any;
  readonly slow: Any;
  readonly poison: Any;
  readonly server: { inject(path: string): Promise<{ statusCode: number; body: string }> };
  centsOf(customer: string): Promise<number | string>;
}

const project = new Project();
after(() => project.remove());
project.write("package.json", JSON.stringify({ private: true, type: "module" }));
project.write("reference.ts", blocks(REFERENCE, "ts").join("\n"));
project.write("readme.ts", blocks(page("clients/node/README.md"), "ts").join("\n"));
const [init] = blocks(REFERENCE, "sh").flatMap(
  (block) => block.match(/(?<=npx tsc )--init .*/) ?? [],
);
project.compile(...(init?.split(" ") ?? []));
project.compile("--pretty", "false");
const { TestDriver, FakeSidecar } = await project.package<typeof Testing>("testing/index.js");
const pillion = await project.package<typeof Pillion>("index.js");
const said: unknown[][] = []; // by the programs
console.log = (...words) => void said.push(words);
const reference = await project.import<Reference>("reference.js"); // its own test is run, too

test("what can be seen of the worker of node.md", () => {
  const lines = said.map((words) => words.join(" "));
  const assigned = lines.filter((line) => line === "orders/0 is assigned as active");
  assert.equal(assigned.length, 2); // it was revoked once
  const commits = said.filter(([of]) => (of as { task?: string } | undefined)?.task === "orders/1");
  assert.ok(commits.length > 0);
});

test("the ten minutes' programs and their test", () => {
  const programs = files(TUTORIAL);
  assert.deepEqual([...programs.keys()], ["totals.mjs", "totals.test.mjs", "pay.mjs"]);
  assert.equal(blocks(TUTORIAL, "js").length, programs.size);
  for (const [name, text] of programs) {
    project.write(join("ten", name), text);
  }
  assert.match(project.test("ten/totals.test.mjs"), /^# pass 2$/m);
});

test("what node.md says about errors", async () => {
  const { worker, degrees, visits, slow, clicks, poison, orders } = reference;
  const driver = new TestDriver(worker);
  await driver.send(degrees, null, 20);
  await driver.send(degrees, null, -300);
  await driver.sendRaw(degrees, null, Buffer.from("3"));
  await driver.sendRaw(clicks, Buffer.from([0xff]), Buffer.from("1"));
  assert.deepEqual(driver.outputs(poison), [[Buffer.from([0xff]), Buffer.from("1")]]);
  await driver.sendRaw(visits, Buffer.from("v"), Buffer.from('{"page":"/","ms":1500}'));
  await driver.sendRaw(visits, Buffer.from("v"), Buffer.from('{"page":"/"}'));
  assert.deepEqual(driver.outputs(slow), [["v", { page: "/", ms: 1500 }]]);
  await assert.rejects(driver.sendRaw(orders, Buffer.from("c"), Buffer.from("{}")), {
    name: "HandlerFailed",
    message: /orders\/0 offset 0/,
  });
  driver[Symbol.dispose]();
});

test("what node.md says about queries", async () => {
  const { worker, server, centsOf } = reference;
  assert.equal((await server.inject("/ready")).statusCode, 503);
  await using sidecar = await FakeSidecar.listen();
  process.env.PILLION_URL = sidecar.url;
  const started = worker.start();
  const fake = await sidecar.accept();
  await started;
  for (const set of ["prices", "orders"]) {
    const task = fake.assign(set);
    await fake.expect("opened");
    if (set === "orders") {
      const row = '{"cents":5,"items":[]}';
      fake.restore(task, "accounts", [[Buffer.from("c1"), Buffer.from(row)]]);
    }
    await fake.restored(task);
  }
  assert.equal((await server.inject("/ready")).statusCode, 200);
  const asked = async <T>(answer: Promise<T>, partition: number) => {
    const { id } = await fake.expect("locate");
    const task = `orders/${partition}`;
    const active = { member: "pillion-1", address: "10.0.0.8:8080" };
    fake.send({ type: "located", re: id, set: "orders", partition, task, stale: false, active });
    return answer;
  };
  assert.equal(await asked(centsOf("c1"), 0), 5);
  assert.equal(await asked(centsOf("c2"), 0), 0);
  assert.equal(await asked(centsOf("c1"), 1), "10.0.0.8:8080");
  assert.equal((await asked(server.inject("/cents/c1"), 0)).body, '{"cents":5}');
  await worker.stop();
});

test("a key of plain JSON is refused", () => {
  const { json, str, t, Worker } = pillion;
  const worker = new Worker({ group: "g" });
  const serdes = { key: json(t.object({ item: t.str })), value: str() };
  assert.throws(() => worker.topic("x", serdes), /canonical/);
});

test("node.md leaves nothing out", () => {
  const told = words(REFERENCE);
  const due = {
    Batch: [...members(pillion.Batch), ...fields("worker/records.ts", "class Batch")],
    Context: members(pillion.Context),
    Worker: [...members(pillion.Worker), ...fields("worker/options.ts", "interface WorkerOptions")],
    TestDriver: [
      ...members(TestDriver),
      ...fields("testing/driver.ts", "interface TestDriverOptions"),
    ],
    t: Object.keys(pillion.t),
  };
  for (const [of, names] of Object.entries(due)) {
    assert.deepEqual([of, names.filter((name) => !told.has(name))], [of, []]);
    assert.ok(names.length >= 4, of);
  }
});

test("node.md makes nothing up", () => {
  for (const of of [pillion.Batch, pillion.Context]) {
    const [, text = ""] =
      REFERENCE.match(new RegExp(`\`${of.name}\` (?:is|has) (.*?)\\.\\s`, "s")) ?? [];
    const told = code(text).map((each) => /\w+/.exec(each.replace("ctx.", ""))?.[0] ?? "");
    assert.ok(told.length >= 4, of.name);
    const file = of === pillion.Batch ? "worker/records.ts" : "worker/context.ts";
    const known = new Set([...members(of), ...fields(file, `class ${of.name}`)]);
    assert.deepEqual(
      told.filter((name) => !known.has(name)),
      [],
    );
  }
});

test("the worker of migrating-from-kafkajs.md and its test", () => {
  for (const name of ["shop.mjs", "shop.test.mjs"]) {
    const text = files(KAFKAJS).get(name);
    assert.ok(text !== undefined, name);
    project.write(join("kafkajs", name), text);
  }
  assert.match(project.test("kafkajs/shop.test.mjs"), /^# pass 1$/m);
});

test("what is left of eachBatch", async () => {
  const [batch] = blocks(KAFKAJS, "js").filter((block) => block.startsWith("worker.process("));
  project.write(
    "batch.mjs",
    `import { json, str, Worker } from "pillion";
    export const handled = [];
    const handle = async ({ key }) => handled.push(key);
    export const worker = new Worker({ group: "shop" });
    export const payments = worker.topic("payments", { key: str(), value: json() });
    ${batch}`,
  );
  const made = await project.import<{ worker: Pillion.Worker; payments: Any; handled: unknown }>(
    "batch.mjs",
  );
  const driver = new TestDriver(made.worker);
  await driver.sendMany(made.payments, [
    ["a", 1],
    ["b", 2],
  ]);
  assert.deepEqual(made.handled, ["a", "b"]);
  await driver[Symbol.asyncDispose]();
});

test("every program of migrating-from-kafkajs.md is run, here or in a journey", () => {
  const names = [...files(KAFKAJS).keys()];
  assert.deepEqual(names, ["old.mjs", "shop.mjs", "shop.test.mjs", "positions.mjs", "fill.mjs"]);
  assert.equal(blocks(KAFKAJS, "js").length, names.length + 2); // the two of eachBatch
});

for (const [name, text] of Object.entries({
  "node.md": NODE,
  "migrating-from-kafkajs.md": KAFKAJS,
})) {
  test(`the links of ${name}`, () => {
    for (const [, target = ""] of text.matchAll(/\]\(([^)]+)\)/g)) {
      const [path, anchor] = target.split("#");
      const file = join("docs", path || name);
      assert.ok(existsSync(join(ROOT, file)), target);
      if (anchor !== undefined) {
        assert.ok(anchors(page(file)).has(anchor), target);
      }
    }
  });
}

function prose(text: string): string {
  return text.replaceAll(/```.*?```/gs, "");
}

function anchors(text: string): Set<string> {
  const titles = prose(text).matchAll(/^#+ (.*)$/gm);
  return new Set(
    Array.from(titles, ([, title = ""]) =>
      title
        .replaceAll(/[^\w -]/g, "")
        .toLowerCase()
        .replaceAll(" ", "-"),
    ),
  );
}

/** What stands in code in the prose. */
function code(text: string): string[] {
  return Array.from(prose(text).matchAll(/`([^`]+)`/g), ([, found = ""]) => found);
}

/** All names in code. */
function words(text: string): Set<string> {
  const all = [...code(text), ...blocks(text, "ts")].join(" ");
  return new Set(all.match(/\w+/g));
}

/** The public members of a class and of what it stands on. */
function members(of: { readonly prototype: object }): string[] {
  const names: string[] = [];
  for (let at = of.prototype; at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    names.push(...Object.getOwnPropertyNames(at));
  }
  return names.filter((name) => name !== "constructor");
}

/** The public fields of a class or an interface, as its source declares them. */
function fields(file: string, of: string): string[] {
  const source = page(join("clients", "node", "src", file));
  const [, body = ""] = source.match(new RegExp(`${of}\\b[^{]*\\{(.*?)\n\\}`, "s")) ?? [];
  const found = body.matchAll(/^ {2}readonly (\w+)\??:/gm);
  return Array.from(found, ([, name = ""]) => name);
}
