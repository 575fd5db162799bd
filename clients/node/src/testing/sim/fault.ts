/** What a worker did wrong. */

/** A worker broke a rule of the protocol, or did not do in time what was waited for. */
export class Fault extends Error {
  readonly want: string;
  readonly came: string;
  readonly hint: string;

  constructor(want: string, came: string, hint = "") {
    super(`expected ${want}; came ${came}${hint ? ` (${hint})` : ""}`);
    this.name = "Fault";
    this.want = want;
    this.came = came;
    this.hint = hint;
  }
}

/** Say more in an error that is under way, where a reader of its stack sees it, too. */
export function note(error: unknown, text: string): void {
  if (error instanceof Error) {
    const { message, stack = "" } = error;
    error.message = `${message}\n${text}`;
    error.stack = stack.replace(message, () => error.message);
  }
}
