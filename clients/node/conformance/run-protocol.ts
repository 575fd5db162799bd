/**
 * The conformance job with the protocol-level client, as a program.
 *
 * Run by `pillion conformance --level standby -- node clients/node/build/job/conformance/run-protocol.js`.
 */

import { connect, run } from "../src/client.js";
import { work } from "./protocol.js";

const { PILLION_CONFORMANCE_DIR: directory = ".", PILLION_CONFORMANCE_JOB: job } = process.env;

await run((signal) =>
  work({ job: job === "tables" ? "tables" : "stateless", directory, signal, connect }),
);
