/** The in-memory websocket, and a worker that is connected through one. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { CloseCode } from "../../src/codes.js";
import { Connection } from "../../src/connection.js";
import { decode, encode } from "../../src/control.js";
import type { Closed, Dial, Listener } from "../../src/dial.js";
import { options } from "../../src/options.js";
import { turn } from "../../src/signal.js";
import { type PipeEnd, pipe } from "../../src/testing/pipe.js";
import { WELCOME } from "../hand.js";

/** Keeps what it hears. */
class Ear implements Listener {
  readonly heard: (string | Uint8Array | Closed)[] = [];

  message(data: string | Uint8Array): void {
    this.heard.push(data);
  }

  closed(how: Closed): void {
    this.heard.push(how);
  }
}

function joined(): { one: PipeEnd; other: PipeEnd; ears: [Ear, Ear] } {
  const [one, other] = pipe();
  const ears: [Ear, Ear] = [new Ear(), new Ear()];
  one.listen(ears[0]);
  other.listen(ears[1]);
  return { one, other, ears };
}

test("messages arrive in order as they are, and not inside of the call that sends them", async () => {
  const { one, other, ears } = joined();
  one.send("text");
  one.send(Buffer.from("\0binary"));
  other.send("back");
  assert.deepEqual([ears[0].heard, ears[1].heard], [[], []]);
  await turn();
  assert.deepEqual(ears[1].heard, ["text", Buffer.from("\0binary")]);
  assert.deepEqual(ears[0].heard, ["back"]);
});

test("what came before there was a listener is kept", async () => {
  const [one, other] = pipe();
  one.send("early");
  await turn();
  const ear = new Ear();
  other.listen(ear);
  one.send("later");
  await turn();
  assert.deepEqual(ear.heard, ["early", "later"]);
});

test("a close comes behind what was sent, with its code, and once", async () => {
  const { one, other, ears } = joined();
  one.send("last");
  one.close(4409, "a newer one");
  one.send("too late");
  other.send("too late");
  other.close(1000, "too");
  await turn();
  const end = { code: 4409, reason: "a newer one", tooLarge: false };
  assert.deepEqual(ears[1].heard, ["last", end]);
  assert.deepEqual(ears[0].heard, [end]);
  assert.ok(one.over && other.over);
});

test("a cut has no code", async () => {
  const { one, other, ears } = joined();
  other.send("was sent before");
  other.cut();
  await turn();
  const end = { code: null, reason: "", tooLarge: false };
  assert.deepEqual(ears[0].heard, ["was sent before", end]);
  assert.deepEqual(ears[1].heard, [end]);
  assert.ok(one.over);
});

test("a connection goes through one", async () => {
  const heard: (string | Uint8Array)[] = [];
  const ends: PipeEnd[] = [];
  const dial: Dial = async (_, listener) => {
    const [ours, theirs] = pipe();
    ends.push(ours);
    theirs.listen(listener);
    ours.listen({
      message: (data) => {
        heard.push(data);
        ours.send(encode(WELCOME));
      },
      closed: () => {},
    });
    return theirs;
  };
  const declared = { group: "g", sets: [{ name: "words", sources: ["words"] }] };
  await using conn = new Connection(options({ url: "ws://127.0.0.1:1", ...declared }, { dial }));
  await conn.open();
  assert.equal(conn.welcome.group, "g");
  const hello = decode(String(heard[0]));
  assert.ok(hello?.type === "hello");
  assert.deepEqual(hello.sets[0]?.sources, ["words"]);
  ends[0]?.close(CloseCode.Drained);
  assert.equal(await conn.next(), null);
});
