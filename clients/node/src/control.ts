/**
 * Control messages as JSON text: text to messages and back, checked. Pure.
 *
 * Unknown fields are ignored. An unknown type is an error unless the message says that it is
 * optional.
 */

import { Code, type MessageType } from "./codes.js";
import { MessageError } from "./errors.js";
import { parse, utf8 } from "./json.js";
import { type Draft, MAX_INTEGER, MESSAGES, type Message } from "./messages.js";
import type { AnyObject } from "./schema.js";
import { messageOf } from "./thrown.js";

/** Write a message as compact JSON. Fields that are optional and empty are left out. */
export function encode(message: Draft): string {
  const kind: AnyObject = MESSAGES[message.type];
  return JSON.stringify({ type: message.type, ...(kind.write(message as never) as object) });
}

/** Read a message; undefined for an unknown one that is optional. Throws MessageError. */
export function decode(raw: string | Uint8Array): Message | undefined {
  const body = asObject(raw);
  const { type, id } = body;
  const re =
    typeof id === "number" && Number.isInteger(id) && id >= 1 && id <= MAX_INTEGER ? id : 0;
  if (typeof type !== "string") {
    throw new MessageError("a control message has no type", Code.BadMessage, re);
  }
  if (!isKnown(type)) {
    if (body.optional === true) {
      return undefined;
    }
    const text = `the message type ${short(JSON.stringify(type))} is not known`;
    throw new MessageError(text, Code.UnknownType, re);
  }
  try {
    return { type, ...MESSAGES[type].read(body, type) } as Message;
  } catch (error) {
    throw error instanceof MessageError ? new MessageError(error.text, error.code, re) : error;
  }
}

/** Give the id of a request, and 0 for every other message. */
export function requestId(message: Message | Draft): number {
  return "id" in message ? message.id : 0;
}

/** What a number that is not written as a whole one becomes. No kind of a field takes it. */
const FRACTION = Symbol("a number with a fraction or an exponent");

function asObject(raw: string | Uint8Array): Readonly<Record<string, unknown>> {
  let found: unknown;
  try {
    found = parse(typeof raw === "string" ? raw : utf8(raw), whole);
  } catch (error) {
    throw new MessageError(`a control message is not JSON: ${short(messageOf(error))}`);
  }
  if (typeof found !== "object" || found === null || Array.isArray(found)) {
    throw new MessageError("a control message is not a JSON object");
  }
  return found as Readonly<Record<string, unknown>>;
}

function whole(text: string): unknown {
  return /[.eE]/.test(text) ? FRACTION : Number(text) + 0; // + 0: nought has no sign here
}

function isKnown(type: string): type is MessageType {
  return Object.hasOwn(MESSAGES, type);
}

function short(text: string): string {
  return text.length <= 80 ? text : `${text.slice(0, 77)}...`;
}
