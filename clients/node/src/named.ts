/** Values by a name of the user's choice: an object literal, or a Map where names come from data. */

export type Named<T> = ReadonlyMap<string, T> | Readonly<Record<string, T>>;

/** The pairs of name and value. */
export function pairs<T>(named: Named<T>): [string, T][] {
  return named instanceof Map ? [...named] : Object.entries(named);
}
