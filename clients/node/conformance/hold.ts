/** What a record of a scenario may have a handler do: wait until the player lets it go. */

import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const LOOK_EVERY_MS = 2;

/** Stay inside the handler until the player lets it go, or is no longer there. */
export async function hold(value: Uint8Array | null, directory: string): Promise<void> {
  const [verb, name] = Buffer.from(value ?? "")
    .toString()
    .split(" ", 2);
  if (verb !== "wait" && verb !== "block") {
    return;
  }
  writeFileSync(join(directory, `${name}.in`), "");
  const asleep = new Int32Array(new SharedArrayBuffer(4));
  while (existsSync(directory) && !existsSync(join(directory, `${name}.go`))) {
    if (verb === "block") {
      Atomics.wait(asleep, 0, 0, LOOK_EVERY_MS); // blocks the loop, which is the point
    } else {
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    }
  }
}
