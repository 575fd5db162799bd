/**
 * How often each key of the topic `visits` came, asked over HTTP at any worker of the group. The
 * same service as service.py, and in one group with it.
 *
 *     GET /counts/{key}    200 {"key": ..., "count": ...}; 503 while it cannot be told: ask again
 *     GET /ready           200 once the tables of this worker are whole, 503 until then
 *
 * The worker that owns the key's partition answers from its table. Every other one asks the owner,
 * and an owner that is asked so does not ask on: between two answers a partition may move.
 *
 * ADDRESS (host:port) is where this worker listens and where the others reach it:
 *
 *     npm install && npm run build
 *     ADDRESS=10.0.0.7:8000 pillion run --bootstrap-servers localhost:9092 -- node build/lookup/service.js
 */

import fastify, { type FastifyReply } from "fastify";
import { bytes, int, PillionError, str, Worker } from "pillion";

const ADDRESS = process.env.ADDRESS ?? "127.0.0.1:8000";

const worker = new Worker({ group: "lookup", advertise: ADDRESS });
const visits = worker.topic("visits", { key: str(), value: bytes() });
const counts = worker.table("counts", { key: str(), value: int(), default: () => 0 });

worker.each(visits, { tables: [counts] }, ({ key }, ctx) => {
  if (key !== null) {
    const rows = ctx.table(counts);
    rows.set(key, rows.get(key) + 1);
  }
});

const server = fastify();

server.get<{ Params: { "*": string } }>("/counts/*", async (request, reply) => {
  const key = request.params["*"];
  let found: Awaited<ReturnType<typeof worker.locate>>;
  try {
    found = await worker.locate(counts, key);
  } catch (error) {
    if (error instanceof PillionError) {
      return busy(reply, error.message);
    }
    throw error;
  }
  if (found.stale || found.active === null) {
    return busy(reply, "the group is changing");
  }
  if (found.here) {
    return { key, count: worker.local(counts).get(key) ?? 0 };
  }
  if (request.headers["handed-on"] === "true" || found.active.address === ADDRESS) {
    return busy(reply, `${found.task} is on its way to or from ${ADDRESS}`);
  }
  return await ask(found.active.address, key, reply);
});

/** Ask the owner of a key. */
async function ask(owner: string, key: string, reply: FastifyReply): Promise<unknown> {
  const url = `http://${owner}/counts/${encodeURIComponent(key)}`;
  try {
    const signal = AbortSignal.timeout(2_000);
    const answer = await fetch(url, { headers: { "handed-on": "true" }, signal });
    return reply.code(answer.status).send(await answer.json());
  } catch (error) {
    return busy(reply, `${owner} does not answer: ${error}`);
  }
}

server.get("/ready", async (_, reply) => {
  return worker.isReady ? {} : busy(reply, "tables are being restored");
});

function busy(reply: FastifyReply, why: string): FastifyReply {
  return reply.code(503).header("retry-after", "1").send({ error: why });
}

// The worker ends with the server, and the server with the worker.
server.addHook("onClose", () => worker.stop());
for (const name of ["SIGTERM", "SIGINT"] as const) {
  process.once(name, () => void server.close());
}

const [host, port] = [
  ADDRESS.slice(0, ADDRESS.lastIndexOf(":")),
  Number(ADDRESS.split(":").at(-1)),
];
await server.listen({ host, port });
console.error(`lookup: process ${process.pid} serves ${ADDRESS}`);
try {
  void worker.start(); // it may take its time: /ready tells
  await worker.ended();
} catch (error) {
  console.error(error);
  process.exitCode = 1;
}
await server.close();
