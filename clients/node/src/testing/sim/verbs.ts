/** The steps of a scenario about the connection and about messages. steps.ts has the others. */

import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { boolean, integer, list, maybe, nullable, text, word } from "../../schema.js";
import { Fault } from "./fault.js";
import { checkHello } from "./player.js";
import { type Verb, verb } from "./scenario.js";
import { Session } from "./session.js";
import { SIGNALS } from "./stage.js";
import { anObject, fillIn, reading, strict } from "./values.js";

const size = integer(0);
const yes = reading((found, at): true => {
  if (found !== true) {
    throw new TypeError(`${at} is not true`);
  }
  return found;
});
const manner = nullable(
  strict({
    fragment: maybe(size),
    pings: maybe(boolean),
    chunk: maybe(size),
    glue: maybe(boolean),
  }),
);
const code = reading((found, at) =>
  found === "any" || found === "not 0" ? found : size.read(found, at),
);

export const VERBS: ReadonlyMap<string, Verb> = new Map<string, Verb>([
  ["start", verb(yes, {}, (p) => p.start())],

  // Wait for a connection, check the handshake and hello, answer welcome.
  [
    "connect",
    verb(yes, { afterMs: maybe(size) }, async (p, _, { afterMs = 0 }) => {
      const knock = await p.knock(afterMs);
      if (knock.fault !== null) {
        knock.refuse(400, "bad_subprotocol");
        throw knock.fault;
      }
      const session = new Session(p.sidecar, knock.link);
      p.sidecar.session = session;
      knock.admit(session);
      await p.sidecar.until("hello", () => session.hello !== null);
      checkHello(session.declared, p.scenario.head.job);
      session.greet();
    }),
  ],

  // Send the next handshake away.
  [
    "refuse",
    verb(
      size,
      { code: maybe(text()), afterMs: maybe(size) },
      async (p, status, { code: why = "", afterMs = 0 }) => {
        const knock = await p.knock(afterMs);
        p.quiet();
        knock.refuse(status, why);
      },
    ),
  ],

  // End the connection from this side; null: as a sidecar that was killed.
  [
    "close",
    verb(nullable(size), { reason: maybe(text()) }, async (p, how, { reason = "" }) => {
      const session = p.now;
      p.quiet();
      if (how === null) {
        session.link.cut();
      } else {
        session.link.close(how, reason);
      }
      await p.leave("the end of the connection", () => session.ended);
    }),
  ],

  // Wait for the worker's close. An error before it says why.
  [
    "closes",
    verb(list(size), {}, async (p, codes) => {
      const session = p.now;
      const want = `a close with one of ${codes.join(", ")}`;
      p.sidecar.hears = () => true;
      try {
        await p.leave(want, () => session.ended);
      } finally {
        p.sidecar.hears = null;
      }
      if (!codes.includes(session.code)) {
        throw new Fault(want, `code ${session.code} (0: none)`);
      }
    }),
  ],

  // Wait for the end of the worker; a new connection instead of it is a fault.
  [
    "exits",
    verb(code, {}, async (p, want) => {
      const { worker, stage } = p;
      const what = "the worker to exit without another connection";
      await p.leave(what, () => worker.code !== null || stage.knocking !== null);
      if (worker.code === null) {
        throw new Fault(what, "another connection");
      }
      const right = want === "not 0" ? worker.code !== 0 : want === "any" || want === worker.code;
      if (!right) {
        throw new Fault(`the exit code ${want}`, `${worker.code}`);
      }
    }),
  ],

  // Send a signal; KILL also waits for the end.
  [
    "signal",
    verb(word(...SIGNALS), {}, async (p, name) => {
      const { worker, now: session } = p;
      p.stage.signal(name);
      if (name === "KILL") {
        await p.leave("its end", () => worker.code !== null && session.ended);
      }
    }),
  ],

  // Wait until the handler is at a record that holds it.
  [
    "inside",
    verb(text(), {}, async (p, name) => {
      const path = join(p.stage.work, `${name}.in`);
      const met = () => existsSync(path);
      await p.sidecar.until(`the handler at the record ${name}`, met, { poll: true });
    }),
  ],

  // Let the handler go on.
  ["let_go", verb(text(), {}, (p, name) => writeFileSync(join(p.stage.work, `${name}.go`), ""))],

  // Let time pass; what comes is checked.
  ["pause", verb(size, {}, (p, ms) => p.sidecar.idle(ms))],

  // Write messages in another manner from now on.
  [
    "wire",
    verb(manner, {}, (p, how) => {
      const { fragment = 0, pings = false, chunk = 0, glue = false } = how ?? {};
      p.now.link.change({ fragment, pings, chunk, glue });
    }),
  ],

  ["ping", verb(size, {}, (p, bytes) => p.now.link.ping(bytes))],

  // Send a message as it stands, but for placeholders.
  ["say", verb(anObject, {}, (p, message) => p.now.put(fillIn(p.now, JSON.stringify(message))))],

  // Send a text message that may be anything.
  ["text", verb(text(), {}, (p, what) => p.now.put(what))],

  // Send a binary message that may be anything, in hex and numbers of 32 bits by name.
  [
    "bytes",
    verb(text(), {}, (p, what) => {
      const parts = what.split(",").map((word) => {
        const written = word.trim();
        if (!written.includes("/")) {
          return Buffer.from(written.replaceAll(" ", ""), "hex");
        }
        const number = Buffer.alloc(4);
        number.writeUInt32LE(Number(fillIn(p.now, `"$${written}"`)));
        return number;
      });
      const made = Buffer.concat(parts);
      p.now.sent += made.length;
      p.now.put(made);
    }),
  ],

  // Wait for an error of the worker with these fields; others may be there, too.
  [
    "hear",
    verb(anObject, {}, (p, want) =>
      p.hear(anObject.read(JSON.parse(fillIn(p.now, JSON.stringify(want))), "hear")),
    ),
  ],

  // Wait until the worker has read everything: say what nobody knows, which has an answer.
  [
    "barrier",
    verb(yes, {}, async (p) => {
      const id = p.now.nextId();
      p.now.put(JSON.stringify({ type: "x-barrier", id }));
      await p.hear({ type: "error", re: id, code: "unknown_type" });
    }),
  ],

  // Let time pass in which some messages must not come.
  [
    "quiet",
    verb(list(text()), { ms: size }, async (p, types, { ms }) => {
      p.sidecar.forbidden = types;
      try {
        await p.sidecar.idle(ms);
      } finally {
        p.sidecar.forbidden = [];
      }
    }),
  ],

  // Wait for progress since the last lost, or see that there was none.
  [
    "lively",
    verb(boolean, {}, async (p, want) => {
      const session = p.now;
      if (!want && session.lively) {
        throw new Fault("no progress from a worker whose work stands still", "progress");
      }
      await p.sidecar.until("progress", () => session.lively === want);
    }),
  ],
]);
