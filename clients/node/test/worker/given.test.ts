import assert from "node:assert/strict";
import { test } from "node:test";
import { str } from "../../src/serdes/index.js";
import { Worker } from "../../src/worker/worker.js";

test("a worker is given an object", () => {
  assert.throws(() => new Worker("shop" as never), /write new Worker\({ group: 'shop' }\)/);
});

// Left out without a word, a name that is spelled wrong would keep tables in memory, or commit at another pace.
test("options that there are not are refused, with the one that was meant", () => {
  // biome-ignore lint/suspicious/noExplicitAny: so is a program without types
  const worker: any = new Worker({ group: "g" });
  const texts = { key: str(), value: str() };
  const topic = worker.topic("a", texts);
  const wrong: [() => unknown, RegExp][] = [
    [() => new Worker({ statedir: "s" } as never), /no option 'statedir'; write stateDir/],
    [() => new Worker({ commit_interval: 1 } as never), /write commitIntervalMs/],
    [() => new Worker({ colour: 1 } as never), /no option 'colour'; there are group, url/],
    [() => worker.topic("b", { ...texts, topic: "c" }), /topic 'b' has no option 'topic'/],
    [() => worker.output("b", { ...texts, valu: 1 }), /output 'b' has no option 'valu'/],
    [() => worker.table("b", { ...texts, Default: () => "" }), /write default/],
    [() => worker.sourceTable("b", { ...texts, changelog: "c" }), /there are key, value, topic/],
    [() => worker.globalTable("b", { ...texts, topics: "c" }), /no option 'topics'/],
    [() => worker.process(topic, { table: [] }, () => {}), /process\(\) has no option 'table'/],
    [() => worker.each(topic, { onerror: 1 }, () => {}), /each\(\) has no option .* write onError/],
    [() => worker.every({ second: 1 }, () => {}), /every\(\) has no option 'second'/],
  ];
  for (const [call, says] of wrong) {
    assert.throws(call, says);
  }
});
