/**
 * The conformance job with Worker, as a program.
 *
 * Run by `pillion conformance --level standby -- node clients/node/build/job/conformance/run-worker.js each`;
 * with batches in place of each it takes whole batches.
 */

import { jobWorker } from "./worker.js";

const { PILLION_CONFORMANCE_DIR: directory = ".", PILLION_CONFORMANCE_JOB: job } = process.env;
const batches = process.argv[2] === "batches";

await jobWorker({ job: job === "tables" ? "tables" : "stateless", directory, batches }).run();
