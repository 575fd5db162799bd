/** Plays scenarios: the verbs, a scenario and a stage put together. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MemoryStage, type Program } from "./memory.js";
import { Player } from "./player.js";
import { load, type Scenario, settingsOf, type Verbs } from "./scenario.js";
import { Sidecar } from "./sidecar.js";
import { STEPS } from "./steps.js";
import { VERBS } from "./verbs.js";

const ALL: Verbs = new Map([...VERBS, ...STEPS]);

/** Read one file. Throws an Error for what is not known in it. */
export function read(path: string): Scenario {
  return load(path, ALL);
}

/**
 * Play a case against a program in this event loop. Rejects with Fault for what the program does
 * wrong, and with RangeError when the case needs a real socket or process.
 *
 * patienceMs is how long the program may take for each thing that it owes.
 */
export async function playMemory(
  scenario: Scenario,
  program: Program,
  patienceMs = 10_000,
): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "pillion-"));
  const sidecar = new Sidecar({ ...settingsOf(scenario.head), patienceMs });
  const stage = new MemoryStage(sidecar, program, directory);
  try {
    await new Player(scenario, sidecar, stage).play();
  } finally {
    await stage.close();
    rmSync(directory, { recursive: true, force: true });
  }
}
