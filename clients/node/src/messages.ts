/**
 * The control messages. control.ts reads and writes them; spec/PROTOCOL.md says what they mean.
 *
 * What a field may hold stands in its kind: numbers with their bounds, strings and lists that must
 * not be empty, words from a list.
 */

import type { MessageType } from "./codes.js";
import {
  type AnyObject,
  boolean,
  filled,
  type Incoming,
  integer,
  type Kind,
  list,
  MAX_INTEGER,
  map,
  maybe,
  nullable,
  type Outgoing,
  object,
  or,
  streams,
  text,
  word,
} from "./schema.js";

export { MAX_INTEGER };

const size = integer(0);
const some = integer(1);
const atLeastUnknown = integer(-1);
const partition = integer(0, 2 ** 31 - 1);
const u32 = integer(0, 2 ** 32 - 1);
const id32 = integer(1, 2 ** 32 - 1);
const name = text(/./s);
const label = text(/^[A-Za-z0-9._-]{1,249}$/);
const checkpoint = text(/^[ -~]{0,128}$/);
const base64 = text(/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/);

const prose = or(text(), () => "");
const listed = <In, Out>(kind: Kind<In, Out>) => or(list(kind), () => []);
const mapped = <In, Out>(kind: Kind<In, Out>) => or(map(kind), () => new Map<string, Out>());

const software = object({ name, version: name, language: prose });
const byteCounts = object({ connection: some, stream: some });
const table = object({ name: label, changelog: prose, sourceTopic: prose });
const set = object({ name: label, sources: filled(list(name)), tables: listed(table) });
const flatTable = object({ ...table.fields, sources: listed(name) });
const globalTable = object({ name: label, topic: name });
const limits = object({
  maxFrame: some,
  maxControl: some,
  maxCommitBytes: some,
  maxOutstandingCommits: some,
});
const deadlines = object({ revokeMs: some, workerGraceMs: size, maxProcessingMs: size });
const sourceStream = object({ topic: name, stream: id32, position: size });
const tableStream = object({
  name,
  topic: name,
  kind: word("changelog", "source", "global"),
  stream: id32,
});
const outputStream = object({ topic: name, stream: id32 });
const holder = object({ member: name, address: prose });
const shadow = object({ member: name, lag: atLeastUnknown, address: prose });

/** What most messages are about. */
const about = { task: name, epoch: id32 };
const streamsOfTask = {
  sources: listed(sourceStream),
  tables: listed(tableStream),
  outputs: listed(outputStream),
};

/** Every message by its type. */
export const MESSAGES = {
  hello: object({
    id: some,
    versions: filled(list(integer(-MAX_INTEGER))),
    client: software,
    maxFrame: some,
    credit: byteCounts,
    features: listed(text()),
    group: prose,
    level: maybe(word("stateless", "tables", "standby")),
    sets: listed(set),
    sources: listed(name),
    tables: listed(flatTable),
    globals: listed(globalTable),
    outputs: listed(name),
    replicas: maybe(size),
    address: prose,
    resume: prose,
  }),
  welcome: object({
    re: some,
    version: some,
    session: name,
    sidecar: software,
    group: name,
    guarantee: word("at_least_once", "exactly_once"),
    limits,
    credit: byteCounts,
    deadlines,
    features: listed(text()),
    resume: prose,
  }),
  assign: object({
    id: some,
    ...about,
    set: name,
    partition,
    role: word("active", "standby", "global"),
    ...streamsOfTask,
  }),
  opened: object({ re: some, ...about, checkpoints: mapped(nullable(checkpoint)) }),
  restoring: object({
    ...about,
    table: name,
    records: size,
    bytes: size,
    rate: size,
    remaining: size,
    etaMs: atLeastUnknown,
    waitsFor: prose,
  }),
  restored: object({ id: some, ...about }),
  ready: object({ re: some, ...about }),
  promoted: object({ id: some, ...about, ...streamsOfTask }),
  demoted: object({ ...about, tables: listed(tableStream) }),
  revoke: object({ id: some, ...about, deadlineMs: size, code: name }),
  released: object({ re: some, ...about }),
  lost: object({ ...about, code: name, message: prose }),
  reset: object({
    id: some,
    ...about,
    table: name,
    stream: id32,
    nextOffset: size,
    code: name,
    message: prose,
  }),
  commit: object({ id: some, ...about, sourceNext: filled(map(size)) }),
  committed: object({ re: some, ...about, checkpoints: mapped(checkpoint) }),
  aborted: object({ re: some, ...about, code: name, message: text() }),
  stale: object({ re: some, ...about }),
  unknown: object({ re: some, ...about, code: name, message: text() }),
  locate: object({
    id: some,
    table: prose,
    set: prose,
    key: or(base64, () => ""),
    partition: maybe(partition),
  }),
  located: object({
    re: some,
    set: name,
    partition,
    task: name,
    stale: boolean,
    active: maybe(holder),
    standbys: listed(shadow),
  }),
  progress: object({}),
  /** A connection of 0 leaves its limit as it is. */
  credit: object({
    connection: or(size, () => 0),
    streams: or(streams(size), () => new Map<number, number>()),
  }),
  waiting: object({ code: name, message: prose }),
  error: object({
    code: name,
    message: text(),
    re: or(size, () => 0),
    task: prose,
    epoch: or(u32, () => 0),
    stream: or(u32, () => 0),
  }),
} satisfies Record<MessageType, AnyObject>;

type FieldsOf<T extends MessageType> = (typeof MESSAGES)[T]["fields"];
/** A message as it is read: every field is there. */
export type MessageOf<T extends MessageType> = T extends MessageType
  ? { readonly type: T } & Incoming<FieldsOf<T>>
  : never; // of several types: one of them
/** A message as it may be written: what is optional may be left out. */
export type DraftOf<T extends MessageType> = T extends MessageType
  ? { readonly type: T } & Outgoing<FieldsOf<T>>
  : never;
/** Any message that was read; its type tells which. */
export type Message = MessageOf<MessageType>;
/** Any message to write. */
export type Draft = DraftOf<MessageType>;

export type Software = Incoming<typeof software.fields>;
export type Window = Incoming<typeof byteCounts.fields>;
export type Limits = Incoming<typeof limits.fields>;
export type Deadlines = Incoming<typeof deadlines.fields>;
export type TableDeclaration = Outgoing<typeof table.fields>;
export type SetDeclaration = Outgoing<typeof set.fields>;
export type FlatTableDeclaration = Outgoing<typeof flatTable.fields>;
export type GlobalDeclaration = Outgoing<typeof globalTable.fields>;
export type SourceStream = Incoming<typeof sourceStream.fields>;
export type TableStream = Incoming<typeof tableStream.fields>;
export type OutputStream = Incoming<typeof outputStream.fields>;
export type Holder = Incoming<typeof holder.fields>;
export type Shadow = Incoming<typeof shadow.fields>;

export type HelloMessage = MessageOf<"hello">;
export type WelcomeMessage = MessageOf<"welcome">;
export type AssignMessage = MessageOf<"assign">;
export type OpenedMessage = MessageOf<"opened">;
export type RestoringMessage = MessageOf<"restoring">;
export type RestoredMessage = MessageOf<"restored">;
export type ReadyMessage = MessageOf<"ready">;
export type PromotedMessage = MessageOf<"promoted">;
export type DemotedMessage = MessageOf<"demoted">;
export type RevokeMessage = MessageOf<"revoke">;
export type ReleasedMessage = MessageOf<"released">;
export type LostMessage = MessageOf<"lost">;
export type ResetMessage = MessageOf<"reset">;
export type CommitMessage = MessageOf<"commit">;
export type CommittedMessage = MessageOf<"committed">;
export type AbortedMessage = MessageOf<"aborted">;
export type StaleMessage = MessageOf<"stale">;
export type UnknownMessage = MessageOf<"unknown">;
export type LocateMessage = MessageOf<"locate">;
export type LocatedMessage = MessageOf<"located">;
export type ProgressMessage = MessageOf<"progress">;
export type CreditMessage = MessageOf<"credit">;
export type WaitingMessage = MessageOf<"waiting">;
export type ErrorMessage = MessageOf<"error">;
