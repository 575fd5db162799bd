/** The counts of one partition, as who writes them by hand keeps them: one look-up for a record. */
export class Counts {
  /** @type {Map<string, { key: Buffer, count: number, changed: boolean }>} */
  #rows = new Map();
  #changed = [];

  /** @param {string} key one character for each byte */
  add(key) {
    const row = this.#row(key);
    row.count += 1;
    if (!row.changed) {
      row.changed = true;
      this.#changed.push(row);
    }
  }

  /** What the changelog says. */
  set(key, count) {
    this.#row(key).count = count;
  }

  /** The rows that have changed since the last call: keys, and counts as 8 bytes. */
  take() {
    const rows = this.#changed;
    this.#changed = [];
    return rows.map((row) => {
      row.changed = false;
      const value = Buffer.allocUnsafe(8);
      value.writeBigInt64BE(BigInt(row.count));
      return [row.key, value];
    });
  }

  #row(key) {
    let row = this.#rows.get(key);
    if (row === undefined) {
      row = { key: Buffer.from(key, "latin1"), count: 0, changed: false };
      this.#rows.set(key, row);
    }
    return row;
  }
}
