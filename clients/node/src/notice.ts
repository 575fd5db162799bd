/** What the client tells a person, where the program has not said otherwise: a line on stderr. */

/** Say one sentence. */
export function notice(sentence: string): void {
  process.stderr.write(`pillion: ${sentence}\n`);
}
