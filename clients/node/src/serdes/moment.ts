/** Moments and dates as JSON has them. Pure. */

/**
 * A moment, in microseconds: what JSON's form of a date with time holds. A Date has no more than
 * milliseconds, so that some moments of other languages would come back changed.
 */
export class Moment {
  /** Microseconds since 1970. */
  readonly micros: bigint;

  /** Throws RangeError outside of the years 1 to 9999. */
  constructor(micros: bigint) {
    if (micros < FIRST || micros > LAST) {
      throw new RangeError("it is outside of the years 1 to 9999 in UTC");
    }
    this.micros = micros;
  }

  static of(date: Date): Moment {
    return new Moment(BigInt(date.getTime()) * 1000n);
  }

  /** Read a moment with its offset from UTC. Throws RangeError. */
  static parse(text: string): Moment {
    const [, date = "", time = "", fraction = "", zone = ""] = MOMENT.exec(text) ?? [];
    const [hour = 24, minute = 60, second = 60] = time.split(":").map(Number);
    if (hour > 23 || minute > 59 || second > 59) {
      throw new RangeError("it is not like 2026-11-30T16:45:00Z");
    }
    const seconds = day(date) * 86400 + hour * 3600 + minute * 60 + second - offset(zone);
    return new Moment(BigInt(seconds) * 1_000_000n + BigInt(fraction.padEnd(6, "0").slice(0, 6)));
  }

  /** The nearest Date before it. */
  toDate(): Date {
    const rest = ((this.micros % 1000n) + 1000n) % 1000n;
    return new Date(Number((this.micros - rest) / 1000n));
  }

  /** In UTC, with six digits of fraction or none. */
  toString(): string {
    const rest = ((this.micros % 1_000_000n) + 1_000_000n) % 1_000_000n;
    const seconds = new Date(Number((this.micros - rest) / 1000n)).toISOString().slice(0, 19);
    return rest === 0n ? `${seconds}Z` : `${seconds}.${String(rest).padStart(6, "0")}Z`;
  }

  toJSON(): string {
    return this.toString();
  }
}

const MOMENT = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/;
const FIRST = -62_135_596_800_000_000n; // 0001-01-01T00:00:00Z
const LAST = 253_402_300_799_999_999n; // 9999-12-31T23:59:59.999999Z

/** Whether text is a date of the calendar, such as 2026-11-30. */
export function isDate(text: string): boolean {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) {
    return false;
  }
  const found = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(found.getTime()) && found.toISOString().startsWith(text) && text >= "0001";
}

/** Days since 1970. */
function day(text: string): number {
  if (!isDate(text)) {
    throw new RangeError("there is no such day");
  }
  return Date.parse(`${text}T00:00:00Z`) / 86_400_000;
}

/** Seconds that a zone is ahead of UTC. */
function offset(zone: string): number {
  if (zone === "Z") {
    return 0;
  }
  const [hours = 0, minutes = 0] = zone.slice(1).split(":").map(Number);
  if (hours > 23 || minutes > 59) {
    throw new RangeError("its offset from UTC is not like +02:00");
  }
  return (zone.startsWith("-") ? -1 : 1) * (hours * 3600 + minutes * 60);
}
