/** What a run hands to the bench: its figures, and the digest of its table. As figures.py. */

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

const TICKS = 100; // USER_HZ

/** From process ready to table whole. CPU of this process, and of the sidecar beside it. */
export class Window {
  #sidecar;
  #began;
  #cpu;
  #sidecarCpu;
  #seconds = 0;

  /** @param {number} [sidecar] its process */
  constructor(sidecar) {
    this.#sidecar = sidecar;
    this.#sidecarCpu = cpuOf(sidecar);
    this.#cpu = cpu();
    this.#began = performance.now();
  }

  /** The table is whole. */
  close() {
    this.#seconds = (performance.now() - this.#began) / 1000;
    this.#cpu = cpu() - this.#cpu;
    this.#sidecarCpu = cpuOf(this.#sidecar) - this.#sidecarCpu;
  }

  /**
   * Write the figures into a file; no two tables have a key in common.
   *
   * @param {string} path
   * @param {Iterable<Map<string, Buffer>>} tables keys as latin1 texts
   * @param {number} records
   */
  write(path, tables, records) {
    const [rss, sidecarRss] = [peak("self"), this.#sidecar ? peak(this.#sidecar) : 0];
    const table = new Map([...tables].flatMap((each) => [...each]));
    const figures = {
      seconds: this.#seconds,
      records,
      keys: table.size,
      digest: digest(table),
      cpu: this.#cpu,
      rss,
      sidecar_cpu: this.#sidecarCpu,
      sidecar_rss: sidecarRss,
    };
    writeFileSync(path, JSON.stringify(figures));
  }
}

/** SHA-256 over "key\nvalue\n" of each row, ordered by key. */
function digest(table) {
  const made = createHash("sha256");
  for (const key of [...table.keys()].sort()) {
    made.update(key, "latin1").update("\n").update(table.get(key)).update("\n");
  }
  return made.digest("hex");
}

function cpu() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

function cpuOf(pid) {
  if (pid === undefined) {
    return 0;
  }
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = stat
    .slice(stat.lastIndexOf(")") + 1)
    .trim()
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

function peak(pid) {
  const found = /^VmHWM:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"));
  return Number(found?.[1] ?? 0) / 1024;
}
