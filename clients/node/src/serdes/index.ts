/**
 * Serialisers of keys and values. spec/serdes/ says and tests what their bytes are.
 *
 *     str(), bytes()             UTF-8; the bytes as they are
 *     int(), bigint(), float()   Kafka's Long (up to 2^53-1, and all of it) and Double, 8 bytes
 *     json(), json(type)         compact UTF-8; t makes types, and so do zod, valibot and others
 *     canonical(), canonical(type)   the same value has the same bytes in every language: for keys
 *     a Serde                    any object with encode and decode
 *
 * Null never reaches a serde.
 */

export { SerdeError } from "../errors.js";
export type { Json } from "./any.js";
export { canonical, type JsonSerde, type JsonType, json } from "./json.js";
export { Moment } from "./moment.js";
export { serdeOf } from "./of.js";
export { bigint, bytes, float, int, str } from "./scalars.js";
export type { Serde, ValueOf } from "./serde.js";
export type { StandardIssue, StandardResult, StandardSchema } from "./standard.js";
export * as t from "./t.js";
