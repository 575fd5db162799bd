"""The control messages, one dataclass for each kind. _json reads and writes them.

A field without a default must be present. What a field may hold stands in its type: numbers with
their bounds, strings and lists that must not be empty, words from a list.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from ._codes import MessageType

MAX_INTEGER = (1 << 53) - 1  # every language reads it exactly

Number = Annotated[int, -MAX_INTEGER, MAX_INTEGER]
Size = Annotated[int, 0, MAX_INTEGER]
Some = Annotated[int, 1, MAX_INTEGER]
Eta = Annotated[int, -1, MAX_INTEGER]
Partition = Annotated[int, 0, (1 << 31) - 1]
U32 = Annotated[int, 0, (1 << 32) - 1]
Id32 = Annotated[int, 1, (1 << 32) - 1]
Name = Annotated[str, "filled"]
Names = Annotated[list[Name], "filled"]
Label = Annotated[str, re.compile(r"[A-Za-z0-9._-]{1,249}")]
Checkpoint = Annotated[str, re.compile("[ -~]{0,128}")]
Base64 = Annotated[str, re.compile(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")]
Role = Literal["active", "standby", "global"]
Level = Literal["stateless", "tables", "standby"]
TableKind = Literal["changelog", "source", "global"]
Guarantee = Literal["at_least_once", "exactly_once"]


@dataclass(frozen=True, slots=True)
class Message:
    """Base of all messages."""

    TYPE: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class Software:
    """One side of the connection in logs."""

    name: Name
    version: Name
    language: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """Byte counts: for the whole connection and for each stream."""

    connection: Some
    stream: Some


@dataclass(frozen=True, slots=True)
class TableDeclaration:
    """A table of a set."""

    name: Label
    changelog: str = ""
    source_topic: str = ""


@dataclass(frozen=True, slots=True)
class SetDeclaration:
    """Source topics that are read together, and the tables kept with them."""

    name: Label
    sources: Names
    tables: list[TableDeclaration] = field(default_factory=list[TableDeclaration])


@dataclass(frozen=True, slots=True)
class FlatTableDeclaration:
    """A table of a hello without sets."""

    name: Label
    changelog: str = ""
    source_topic: str = ""
    sources: list[Name] = field(default_factory=list[Name])


@dataclass(frozen=True, slots=True)
class GlobalDeclaration:
    """A read-only table of which the worker holds every partition."""

    name: Label
    topic: Name


@dataclass(frozen=True, slots=True)
class Hello(Message):
    """The worker's first message."""

    TYPE: ClassVar[str] = MessageType.HELLO.value
    id: Some
    versions: Annotated[list[Number], "filled"]
    client: Software
    max_frame: Some
    credit: Window
    features: list[str] = field(default_factory=list[str])
    group: str = ""
    level: Level | None = None
    sets: list[SetDeclaration] = field(default_factory=list[SetDeclaration])
    sources: list[Name] = field(default_factory=list[Name])
    tables: list[FlatTableDeclaration] = field(default_factory=list[FlatTableDeclaration])
    globals: list[GlobalDeclaration] = field(default_factory=list[GlobalDeclaration])
    outputs: list[Name] = field(default_factory=list[Name])
    replicas: Size | None = None
    address: str = ""
    resume: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes that the sidecar accepts, in bytes."""

    max_frame: Some
    max_control: Some
    max_commit_bytes: Some
    max_outstanding_commits: Some


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Times in milliseconds."""

    revoke_ms: Some
    worker_grace_ms: Size
    max_processing_ms: Size


@dataclass(frozen=True, slots=True)
class Welcome(Message):
    """Answers hello."""

    TYPE: ClassVar[str] = MessageType.WELCOME.value
    re: Some
    version: Some
    session: Name
    sidecar: Software
    group: Name
    guarantee: Guarantee
    limits: Limits
    credit: Window
    deadlines: Deadlines
    features: list[str] = field(default_factory=list[str])
    resume: str = ""


@dataclass(frozen=True, slots=True)
class SourceStream:
    """A source partition of a task."""

    topic: Name
    stream: Id32
    position: Size


@dataclass(frozen=True, slots=True)
class TableStream:
    """A table partition of a task."""

    name: Name
    topic: Name
    kind: TableKind
    stream: Id32


@dataclass(frozen=True, slots=True)
class OutputStream:
    """Where writes of a task to an output topic go."""

    topic: Name
    stream: Id32


@dataclass(frozen=True, slots=True)
class Assign(Message):
    """Gives the worker a task under a new epoch."""

    TYPE: ClassVar[str] = MessageType.ASSIGN.value
    id: Some
    task: Name
    set: Name
    partition: Partition
    role: Role
    epoch: Id32
    sources: list[SourceStream] = field(default_factory=list[SourceStream])
    tables: list[TableStream] = field(default_factory=list[TableStream])
    outputs: list[OutputStream] = field(default_factory=list[OutputStream])


@dataclass(frozen=True, slots=True)
class Opened(Message):
    """Answers assign and reset. A null checkpoint is an empty store."""

    TYPE: ClassVar[str] = MessageType.OPENED.value
    re: Some
    task: Name
    epoch: Id32
    checkpoints: dict[str, Checkpoint | None] = field(default_factory=dict[str, Checkpoint | None])


@dataclass(frozen=True, slots=True)
class Restoring(Message):
    """How far a replay has come."""

    TYPE: ClassVar[str] = MessageType.RESTORING.value
    task: Name
    epoch: Id32
    table: Name
    records: Size
    bytes: Size
    rate: Size
    remaining: Size
    eta_ms: Eta
    waits_for: str = ""


@dataclass(frozen=True, slots=True)
class Restored(Message):
    """All tables of the task are whole."""

    TYPE: ClassVar[str] = MessageType.RESTORED.value
    id: Some
    task: Name
    epoch: Id32


@dataclass(frozen=True, slots=True)
class Ready(Message):
    """Answers restored and promoted."""

    TYPE: ClassVar[str] = MessageType.READY.value
    re: Some
    task: Name
    epoch: Id32


@dataclass(frozen=True, slots=True)
class Promoted(Message):
    """Makes a standby the active under a new epoch."""

    TYPE: ClassVar[str] = MessageType.PROMOTED.value
    id: Some
    task: Name
    epoch: Id32
    sources: list[SourceStream] = field(default_factory=list[SourceStream])
    tables: list[TableStream] = field(default_factory=list[TableStream])
    outputs: list[OutputStream] = field(default_factory=list[OutputStream])


@dataclass(frozen=True, slots=True)
class Demoted(Message):
    """Makes an active a standby under a new epoch."""

    TYPE: ClassVar[str] = MessageType.DEMOTED.value
    task: Name
    epoch: Id32
    tables: list[TableStream] = field(default_factory=list[TableStream])


@dataclass(frozen=True, slots=True)
class Revoke(Message):
    """Asks for the task back."""

    TYPE: ClassVar[str] = MessageType.REVOKE.value
    id: Some
    task: Name
    epoch: Id32
    deadline_ms: Size
    code: Name


@dataclass(frozen=True, slots=True)
class Released(Message):
    """Answers revoke, behind the last commit of the task."""

    TYPE: ClassVar[str] = MessageType.RELEASED.value
    re: Some
    task: Name
    epoch: Id32


@dataclass(frozen=True, slots=True)
class Lost(Message):
    """Ends an epoch at once."""

    TYPE: ClassVar[str] = MessageType.LOST.value
    task: Name
    epoch: Id32
    code: Name
    message: str = ""


@dataclass(frozen=True, slots=True)
class Reset(Message):
    """Asks to wipe one store."""

    TYPE: ClassVar[str] = MessageType.RESET.value
    id: Some
    task: Name
    epoch: Id32
    table: Name
    stream: Id32
    next_offset: Size
    code: Name
    message: str = ""


@dataclass(frozen=True, slots=True)
class Commit(Message):
    """Ends a commit whose writes frames came directly before it."""

    TYPE: ClassVar[str] = MessageType.COMMIT.value
    id: Some
    task: Name
    epoch: Id32
    source_next: Annotated[dict[str, Size], "filled"]


@dataclass(frozen=True, slots=True)
class Committed(Message):
    """Answers commit: whole in Kafka."""

    TYPE: ClassVar[str] = MessageType.COMMITTED.value
    re: Some
    task: Name
    epoch: Id32
    checkpoints: dict[str, Checkpoint] = field(default_factory=dict[str, Checkpoint])


@dataclass(frozen=True, slots=True)
class Aborted(Message):
    """Answers commit: nothing of it is or will be visible."""

    TYPE: ClassVar[str] = MessageType.ABORTED.value
    re: Some
    task: Name
    epoch: Id32
    code: Name
    message: str


@dataclass(frozen=True, slots=True)
class Stale(Message):
    """Answers commit: its epoch is over."""

    TYPE: ClassVar[str] = MessageType.STALE.value
    re: Some
    task: Name
    epoch: Id32


@dataclass(frozen=True, slots=True)
class Unknown(Message):
    """Answers commit: how it ended cannot be told."""

    TYPE: ClassVar[str] = MessageType.UNKNOWN.value
    re: Some
    task: Name
    epoch: Id32
    code: Name
    message: str


@dataclass(frozen=True, slots=True)
class Locate(Message):
    """Asks which members of the group hold a key's task."""

    TYPE: ClassVar[str] = MessageType.LOCATE.value
    id: Some
    table: str = ""
    set: str = ""
    key: Base64 = ""
    partition: Partition | None = None


@dataclass(frozen=True, slots=True)
class Holder:
    """A member of the group, and the address that its worker advertised."""

    member: Name
    address: str = ""


@dataclass(frozen=True, slots=True)
class Shadow:
    """A member that keeps a copy."""

    member: Name
    lag: Annotated[int, -1, MAX_INTEGER]
    address: str = ""


@dataclass(frozen=True, slots=True)
class Located(Message):
    """Answers locate."""

    TYPE: ClassVar[str] = MessageType.LOCATED.value
    re: Some
    set: Name
    partition: Partition
    task: Name
    stale: bool
    active: Holder | None = None
    standbys: list[Shadow] = field(default_factory=list[Shadow])


@dataclass(frozen=True, slots=True)
class Progress(Message):
    """Restarts the worker's progress clock."""

    TYPE: ClassVar[str] = MessageType.PROGRESS.value


@dataclass(frozen=True, slots=True)
class Credit(Message):
    """Cumulative limits of data-frame bytes. 0 leaves the connection's limit as it is."""

    TYPE: ClassVar[str] = MessageType.CREDIT.value
    connection: Size = 0
    streams: dict[U32, Size] = field(default_factory=dict[U32, Size])


@dataclass(frozen=True, slots=True)
class Waiting(Message):
    """What the sidecar waits for. Code ok: it is there."""

    TYPE: ClassVar[str] = MessageType.WAITING.value
    code: Name
    message: str = ""


@dataclass(frozen=True, slots=True)
class Error(Message):
    """Refuses a request, or tells the reason of the close that follows."""

    TYPE: ClassVar[str] = MessageType.ERROR.value
    code: Name
    message: str
    re: Size = 0
    task: str = ""
    epoch: U32 = 0
    stream: U32 = 0


BY_TYPE: dict[str, type[Message]] = {kind.TYPE: kind for kind in Message.__subclasses__()}
