"""The steps of a scenario about the connection and about messages. steps.py has the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from .fault import Fault
from .player import Player, check_hello
from .scenario import Verb
from .session import Session
from .sidecar import Manner
from .values import fill_in

VERBS: dict[str, Verb] = {}
_V = TypeVar("_V", bound=Verb)
SIGNALS = ("TERM", "INT", "KILL")


def verb(name: str) -> Callable[[_V], _V]:
    """Register a step by its first key."""

    def register(function: _V) -> _V:
        VERBS[name] = function
        return function

    return register


@verb("start")
async def start(p: Player, _start: bool) -> None:
    """Start the worker."""
    await p.start()


@verb("connect")
async def connect(p: Player, _connect: bool, *, after_ms: int = 0) -> None:
    """Wait for a connection, check the handshake and hello, answer welcome."""
    knock = await p.knock(after_ms)
    if knock.fault is not None:
        knock.refuse(400, "bad_subprotocol")
        raise knock.fault
    session = p.sidecar.session = Session(p.sidecar, knock.link)
    knock.admit(session)
    await p.sidecar.until("hello", lambda: session.hello is not None)
    check_hello(session.declared, p.scenario.head.job)
    session.greet()


@verb("refuse")
async def refuse(p: Player, status: int, *, code: str = "", after_ms: int = 0) -> None:
    """Send the next handshake away."""
    knock = await p.knock(after_ms)
    p.quiet()
    knock.refuse(status, code)


@verb("close")
async def close(p: Player, code: int | None, *, reason: str = "") -> None:
    """End the connection from this side; null: as a sidecar that was killed."""
    session = p.now
    p.quiet()
    if code is None:
        session.link.cut()
    else:
        session.link.close(code, reason)
    await p.leave("the end of the connection", lambda: session.ended)


@verb("closes")
async def closes(p: Player, codes: list[int]) -> None:
    """Wait for the worker's close. An error before it says why."""
    session, p.sidecar.hears = p.now, bool
    try:
        await p.leave(f"a close with one of {codes}", lambda: session.ended)
    finally:
        p.sidecar.hears = None
    if session.code not in codes:
        raise Fault(f"a close with one of {codes}", f"code {session.code} (0: none)")


@verb("exits")
async def exits(p: Player, want: int | str) -> None:
    """Wait for the end of the worker; a new connection instead of it is a fault."""
    worker, stage = p.sidecar.worker, p.stage
    assert worker is not None
    what = "the worker to exit without another connection"
    await p.leave(what, lambda: worker.code is not None or stage.knocking is not None)
    if worker.code is None:
        raise Fault(what, "another connection")
    if not (want in ("any", worker.code) or (want == "not 0" and worker.code != 0)):
        raise Fault(f"the exit code {want}", f"{worker.code}")


@verb("signal")
async def signal(p: Player, name: str) -> None:
    """Send a signal; KILL also waits for the end."""
    if name not in SIGNALS:
        raise ValueError(f"there is no signal {name!r}")
    p.stage.signal(name)
    worker, session = p.sidecar.worker, p.now
    assert worker is not None
    if name == "KILL":
        await p.leave("its end", lambda: worker.code is not None and session.ended)


@verb("inside")
async def inside(p: Player, name: str) -> None:
    """Wait until the handler is at a record that holds it."""
    path = p.stage.work / f"{name}.in"
    await p.sidecar.until(f"the handler at the record {name}", path.exists, poll=True)


@verb("let_go")
async def let_go(p: Player, name: str) -> None:
    """Let the handler go on."""
    (p.stage.work / f"{name}.go").touch()


@verb("pause")
async def pause(p: Player, ms: int) -> None:
    """Let time pass; what comes is checked."""
    await p.sidecar.idle(ms / 1000)


@verb("wire")
async def wire(p: Player, manner: dict[str, Any] | None) -> None:
    """Write messages in another manner from now on."""
    p.now.link.change(Manner(**(manner or {})))


@verb("ping")
async def ping(p: Player, size: int) -> None:
    """Send a ping with so many bytes."""
    p.now.link.ping(size)


@verb("say")
async def say(p: Player, message: dict[str, Any]) -> None:
    """Send a message as it stands, but for placeholders."""
    p.now.put(fill_in(p.now, json.dumps(message), json.dumps))


@verb("text")
async def text(p: Player, what: str) -> None:
    """Send a text message that may be anything."""
    p.now.put(what)


@verb("bytes")
async def raw(p: Player, what: str) -> None:
    """Send a binary message that may be anything, in hex and numbers of 32 bits by name."""
    parts: list[bytes] = []
    for word in map(str.strip, what.split(",")):
        if "/" in word:
            number = int(fill_in(p.now, f'"${word}"', json.dumps))
            parts.append(number.to_bytes(4, "little"))
        else:
            parts.append(bytes.fromhex(word))
    made = b"".join(parts)
    p.now.sent += len(made)
    p.now.put(made)


@verb("hear")
async def hear(p: Player, want: dict[str, Any]) -> None:
    """Wait for an error of the worker with these fields; others may be there, too."""
    await p.hear(json.loads(fill_in(p.now, json.dumps(want), json.dumps)))


@verb("barrier")
async def barrier(p: Player, _barrier: bool) -> None:
    """Wait until the worker has read everything: say what nobody knows, which has an answer."""
    id_ = p.now.next_id()
    p.now.put(json.dumps({"type": "x-barrier", "id": id_}))
    await p.hear({"type": "error", "re": id_, "code": "unknown_type"})


@verb("quiet")
async def quiet(p: Player, types: list[str], *, ms: int) -> None:
    """Let time pass in which some messages must not come."""
    p.sidecar.forbidden = types
    try:
        await p.sidecar.idle(ms / 1000)
    finally:
        p.sidecar.forbidden = ()


@verb("lively")
async def lively(p: Player, want: bool) -> None:
    """Wait for progress since the last lost, or see that there was none."""
    session = p.now
    if not want and session.lively:
        raise Fault("no progress from a worker whose work stands still", "progress")
    await p.sidecar.until("progress", lambda: session.lively == want)
