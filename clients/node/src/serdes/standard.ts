/**
 * Validators of other libraries as types of JSON: zod, valibot and whatever else follows Standard
 * Schema (https://standardschema.dev), whose interface is copied here.
 *
 * One that validates asynchronously is refused: serdes are not awaited. A library that does not
 * follow it is wrapped by hand, TypeBox for instance:
 *
 *     const standard = <T extends TSchema>(schema: T): StandardSchema<Static<T>> => ({
 *       "~standard": {
 *         version: 1,
 *         vendor: "typebox",
 *         validate: (value) =>
 *           Value.Check(schema, value) ? { value } : { issues: Value.Errors(schema, value) },
 *       },
 *     });
 *     const flight = json(standard(Type.Object({ tail: Type.String() })));
 */

import { isDeepStrictEqual } from "node:util";
import { UsageError } from "../errors.js";
import { readAny, writeAny } from "./any.js";
import type { Shape } from "./shapes.js";
import { parse } from "./text.js";
import { Wrong } from "./wrong.js";

/** StandardSchemaV1, as far as it is used here. T is what a valid value becomes. */
export interface StandardSchema<T> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => StandardResult<T> | Promise<StandardResult<T>>;
    readonly types?: { readonly input: unknown; readonly output: T } | undefined;
  };
}

export type StandardResult<T> =
  | { readonly value: T; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] };

export interface StandardIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** The code of a mistake in the program, whatever the record. */
export const ASYNC_SCHEMA = "async_schema";

/** Whether it is a validator. Some libraries make theirs functions. */
export function isStandard(what: unknown): what is StandardSchema<unknown> {
  return (
    ((typeof what === "object" && what !== null) || typeof what === "function") &&
    "~standard" in what
  );
}

/**
 * Make the type of JSON of a validator: what is read is valid, and becomes what the validator makes
 * of it; what is written is any JSON that would be read back as it is.
 */
export function standard<T>(schema: StandardSchema<T>): Shape<T> {
  const { vendor } = schema["~standard"];
  const read = (found: unknown) => valid(schema, readAny(found));
  return {
    name: `${vendor} schema`,
    scalar: false,
    nullable: false,
    read,
    write(value, canonical) {
      const text = writeAny(value, canonical);
      const given = readAny(parse(Buffer.from(text)));
      // A copy: validators may change what they get.
      if (!isDeepStrictEqual(read(parse(Buffer.from(text))), given)) {
        throw new Wrong(
          `would be read back as another one: the ${vendor} schema drops, adds or changes something`,
        );
      }
      return text;
    },
  };
}

function valid<T>(schema: StandardSchema<T>, value: unknown): T {
  const { vendor, validate } = schema["~standard"];
  const said = validate(value);
  if ("then" in said) {
    said.then(undefined, () => undefined);
    throw new UsageError(
      `the ${vendor} schema validates asynchronously, which a serde cannot wait for; use one ` +
        "without async parts",
      ASYNC_SCHEMA,
    );
  }
  if (said.issues === undefined) {
    return said.value;
  }
  const [issue] = said.issues;
  const wrong = new Wrong(`is refused by the ${vendor} schema: ${issue?.message}`);
  for (const part of [...(issue?.path ?? [])].reverse()) {
    const key = typeof part === "object" ? part.key : part;
    wrong.under(typeof key === "number" ? key : String(key));
  }
  throw wrong;
}
