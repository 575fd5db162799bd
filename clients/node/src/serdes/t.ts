/** Everything that types of JSON are made of, under one name: t. */

export { list, map, object, set } from "./parts.js";
export {
  any,
  bigint,
  bool,
  date,
  datetime,
  type Field,
  float,
  int,
  nullable,
  type Of,
  oneOf,
  or,
  type Shape,
  str,
  uuid,
} from "./shapes.js";
