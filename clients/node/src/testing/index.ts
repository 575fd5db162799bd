/**
 * For tests of workers, programs and stores: no Kafka is needed for any of it.
 *
 *     test("words are counted", async () => {
 *       await using driver = new TestDriver(worker);
 *       await driver.send(lines, "k", "to be or not to be");
 *       assert.equal(driver.table(counts).get("be"), 2);
 *       await driver.restart(); // a crash: restored from the changelog
 *       await driver.send(lines, "k", "be");
 *       assert.deepEqual(driver.outputs(totals).at(-1), ["be", 3]);
 *     });
 *
 * TestDriver runs a worker in the test itself: typed, without a network, and without waiting, as
 * time moves only when the test says so. Start there.
 *
 * FakeSidecar is a sidecar on a real local socket whose every message a test decides, for programs
 * that use pillion/client, or that run as a process; play() gives the next worker of one its records
 * and keeps what it commits. FakeWorker, FakeTask and FakeCommit are what it hands out: keys and
 * values are bytes or null. A worker that does not do in 10 s what is waited for is an
 * AssertionError.
 *
 * storeConformance() checks a store of your own.
 */

export { type SendOptions, type Span, TestDriver, type TestDriverOptions } from "./driver.js";
export { FakeSidecar, type FakeSidecarOptions } from "./fake.js";
export {
  type AssignOptions,
  type FakeCommit,
  FakeTask,
  FakeWorker,
  type Pair,
  type PairInit,
} from "./fake-worker.js";
export { type Played, type PlayOptions, play } from "./play.js";
export { type ConformanceOptions, storeConformance } from "./store-conformance.js";
