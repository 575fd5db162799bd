"""The in-memory websocket, and a worker that is connected through one."""

import asyncio

import pytest
from websockets.exceptions import ConnectionClosed, ConnectionClosedError, ConnectionClosedOK

import pillion.client as client
from aio import run
from pillion import _codes
from pillion import _json as json
from pillion import _messages as m
from pillion._options import dialling
from pillion.testing._fake import DEADLINES, LIMITS
from pillion.testing._pipe import PipeEnd, pipe


@run
async def test_messages_arrive_in_order_as_they_are() -> None:
    one, other = pipe()
    await one.send("text")
    await one.send(b"\0binary")
    await other.send("back")
    assert [await other.recv(), await other.recv(), await one.recv()] == [
        "text",
        b"\0binary",
        "back",
    ]


@run
async def test_a_close_comes_behind_what_was_sent_with_its_code() -> None:
    one, other = pipe()
    await one.send("last")
    await one.close(4409, "a newer one")
    assert await other.recv() == "last"
    with pytest.raises(ConnectionClosedError) as caught:
        await other.recv()
    assert caught.value.rcvd is not None
    assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (4409, "a newer one")
    with pytest.raises(ConnectionClosed):
        await other.send("too late")
    await other.close()
    assert one.close_code == other.close_code == 4409


@run
async def test_a_normal_close_is_ok_and_wakes_who_waits() -> None:
    one, other = pipe()
    waiting = asyncio.create_task(other.recv())
    await asyncio.sleep(0)
    await one.close()
    with pytest.raises(ConnectionClosedOK):
        await waiting
    with pytest.raises(ConnectionClosedOK):
        await one.recv()


@run
async def test_a_cut_has_no_code() -> None:
    one, other = pipe()
    await other.send("was sent before")
    other.cut()
    assert await one.recv() == "was sent before"
    with pytest.raises(ConnectionClosedError) as caught:
        await one.recv()
    assert caught.value.rcvd is None
    assert one.close_code == 1006


@run
async def test_a_connection_takes_the_dial_of_its_context() -> None:
    ends: list[PipeEnd] = []

    async def dial() -> PipeEnd:
        ours, theirs = pipe()
        ends.append(ours)
        hello = m.Welcome(
            1, 1, "c1", m.Software("fake", "0"), "g", "at_least_once", LIMITS,
            m.Window(1 << 20, 1 << 20), DEADLINES,
        )  # fmt: skip
        await ours.send(json.encode(hello))
        return theirs

    token = dialling.set(dial)
    try:
        connection = client.connect(group="g", sets=[client.Set("words", ["words"])])
    finally:
        dialling.reset(token)
    async with connection as conn:
        assert conn.welcome.group == "g"
        hello = json.decode(await ends[0].recv())
        assert isinstance(hello, m.Hello)
        assert hello.sets[0].sources == ["words"]
        await ends[0].close(_codes.CloseCode.DRAINED)
        assert [event async for event in conn] == []
