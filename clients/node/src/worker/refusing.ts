/** A record that cannot be processed: the policy is asked, and what it says is done. */

import type { Batch as RawBatch } from "../batch.js";
import type { Header } from "../headers.js";
import { checkDeadLetters } from "./checks.js";
import {
  deadLetterHeaders,
  describe,
  type Failure,
  failedHandler,
  type HandlerFailed,
  undecodable,
  type Verdict,
  verdictOf,
} from "./policy.js";
import type { Place } from "./runner.js";
import { checkOutput, type Handler } from "./topology.js";

export class Refusing {
  readonly #at: Place;

  constructor(at: Place) {
    this.#at = at;
  }

  /**
   * Do as the policy says about a record in hand: nothing of it is left, and null says that it was
   * passed over; else what the program ends with.
   */
  refuse(
    raw: RawBatch,
    row: number,
    error: unknown,
    handler: Handler,
    decoding: boolean,
  ): HandlerFailed | null {
    const failure: Failure = {
      error,
      topic: raw.topic,
      partition: raw.task.partition,
      offset: raw.offsetAt(row),
      key: raw.keyCopyAt(row),
      value: raw.valueCopyAt(row),
      decoding,
    };
    const where = `${failure.topic}/${failure.partition} offset ${failure.offset}`;
    let verdict: Verdict;
    try {
      verdict = verdictOf(handler.onError ?? this.#at.settings.onError, failure);
      if (verdict.verdict === "deadLetter") {
        checkDeadLetters(handler.name, verdict.output);
        checkOutput(this.#at.settings, verdict, handler.name);
      }
    } catch (wrong) {
      return failedHandler(`onError of ${handler.name}`, `for ${where}`, wrong);
    }
    if (verdict.verdict === "stop") {
      return decoding
        ? undecodable(where, error)
        : failedHandler(handler.name, `at ${where}`, error);
    }
    this.#say(failure, handler, where, verdict.verdict === "skip");
    if (verdict.verdict === "deadLetter") {
      const headers: Header[] = [...raw.headersAt(row), ...deadLetterHeaders(failure)];
      const { key, value } = failure;
      this.#at.work.send(verdict.output.name, { key, value, headers, timestamp: undefined });
    }
    return null;
  }

  #say(failure: Failure, handler: Handler, where: string, skipped: boolean): void {
    const { error, topic, partition, offset, decoding } = failure;
    const { logger, settings } = this.#at;
    const went = skipped ? "is skipped" : "goes to dead letters";
    const why = decoding ? "" : `${handler.name} has thrown `;
    // The stack of an error is told once: the next record fails as this one does.
    const first = decoding ? undefined : settings.told.first(error);
    const facts = { topic, partition, offset, ...(first === undefined ? {} : { err: first }) };
    logger.warn(facts, `${where} ${went}: ${why}${describe(error)}`);
  }
}
