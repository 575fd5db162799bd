/**
 * The demo's worker in TypeScript: statistics of each plane, and every late arrival. It does what
 * worker.py does, and reads and writes the same tables: workers of both share one group.
 *
 * flights (the source) are joined with planes (a source table: the same keys, the same partitions)
 * and airports (a global table: every worker has all of it). DEMO_PREFIX stands before every topic;
 * DEMO_STATE is where the tables live.
 */

import { basename, join } from "node:path";
import { json, str, t, Worker } from "pillion";
import { measure } from "./measure.js";

const { DEMO_PREFIX: prefix = "", DEMO_STATE: state = "state" } = process.env;
const LATE = 30; // minutes

/** What is needed of a flight. One that was cancelled or diverted has no delay and no time. */
const flight = t.object({
  id: t.str,
  dest: t.str,
  distance: t.int,
  air_time: t.nullable(t.int),
  arr_delay: t.nullable(t.int),
});
const plane = t.object({ model: t.str, year: t.nullable(t.int) });
const airport = t.object({ name: t.str });

/** What a plane has done. */
const stats = t.object({
  flights: t.int,
  air_minutes: t.int,
  miles: t.int,
  worst_delay: t.nullable(t.int),
  model: t.nullable(t.str),
  year: t.nullable(t.int),
});
const late = t.object({ id: t.str, dest: t.str, airport: t.nullable(t.str), minutes: t.int });

const worker = new Worker({ stateDir: join(state, "tables"), advertise: basename(state) });
const flights = worker.topic(`${prefix}flights`, { key: str(), value: json(flight) });
const arrivals = worker.output(`${prefix}late-arrivals`, { key: str(), value: json(late) });
const planes = worker.sourceTable("planes", {
  key: str(),
  value: json(plane),
  topic: `${prefix}planes`,
});
const airports = worker.globalTable("airports", {
  key: str(),
  value: json(airport),
  topic: `${prefix}airports`,
});
const planeStats = worker.table("plane_stats", {
  key: str(),
  value: json(stats),
  default: () => ({
    flights: 0,
    air_minutes: 0,
    miles: 0,
    worst_delay: null,
    model: null,
    year: null,
  }),
});

worker.process(flights, { tables: [planeStats, planes, airports] }, (batch, ctx) => {
  const rows = ctx.table(planeStats);
  for (const { key: tail, value: flight } of batch) {
    if (tail === null || flight === null) {
      continue; // cancelled before it had a plane
    }
    rows.set(tail, add(rows.get(tail), flight, ctx.table(planes).get(tail)));
    if (flight.arr_delay !== null && flight.arr_delay >= LATE) {
      const airport = ctx.table(airports).get(flight.dest)?.name ?? null;
      ctx.send(arrivals, {
        key: tail,
        value: { id: flight.id, dest: flight.dest, airport, minutes: flight.arr_delay },
      });
    }
  }
});

function add(
  was: t.Of<typeof stats>,
  of: t.Of<typeof flight>,
  by: t.Of<typeof plane> | undefined,
): t.Of<typeof stats> {
  const known = {
    ...was,
    flights: was.flights + 1,
    model: by?.model ?? null,
    year: by?.year ?? null,
  };
  if (of.arr_delay === null) {
    return known;
  }
  return {
    ...known,
    air_minutes: was.air_minutes + (of.air_time ?? 0),
    miles: was.miles + of.distance,
    worst_delay: Math.max(was.worst_delay ?? of.arr_delay, of.arr_delay),
  };
}

measure(worker, state);
await worker.run();
