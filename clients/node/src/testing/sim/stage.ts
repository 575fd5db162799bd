/** Where the worker under test runs, and how it reaches the sidecar: what both kinds share. */

import { Fault } from "./fault.js";
import type { Session } from "./session.js";
import type { Link } from "./sidecar.js";

export type Job = "stateless" | "tables";
export const SIGNALS = ["TERM", "INT", "KILL"] as const;
export type SignalName = (typeof SIGNALS)[number];

/** A worker at the door. The player lets it in, or sends it away with a status. */
export class Knock {
  readonly link: Link;
  /** What is wrong with its handshake. */
  readonly fault: Fault | null;
  /** Resolves with the status: 0 lets it in. */
  readonly answered: Promise<number>;
  session: Session | null = null;
  code = "";
  #answer: (status: number) => void = () => {};

  constructor(link: Link, fault: Fault | null = null) {
    this.link = link;
    this.fault = fault;
    this.answered = new Promise((resolve) => {
      this.#answer = resolve;
    });
  }

  admit(session: Session): void {
    this.session = session;
    this.#answer(0);
  }

  /** Send it away; too late for one that was let in. */
  refuse(status: number, code: string): void {
    this.code = code;
    this.#answer(status);
  }
}

/** A place for one worker at a time. */
export interface Stage {
  /** The directory of the case. */
  readonly work: string;
  /** Who waits for an answer. */
  knocking: Knock | null;
  /** Start the worker. */
  start(job: Job): void;
  signal(name: SignalName): void;
  /** The end of what the worker printed. */
  output(): string;
  /** End everything, whatever state it is in. */
  close(): Promise<void>;
}

/** Take the event. Throws Fault for a second one at the same time. */
export function knocked(stage: Stage, knock: Knock): void {
  if (stage.knocking !== null) {
    throw new Fault("one connection at a time", "a second handshake while the first waits");
  }
  stage.knocking = knock;
}
