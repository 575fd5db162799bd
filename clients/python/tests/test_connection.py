"""The connection against a real websocket server."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import TypeVar

import pytest

import pillion.client as pillion
from aio import run
from pillion import _messages as m
from pillion._encode import encode
from pillion._frames import RECORDS, RESTORE
from pillion.testing import FakeSidecar, FakeTask, FakeWorker

SETS = [pillion.Set("words", ["words"], ["counts"])]
E = TypeVar("E", bound=pillion.Event)


def connect(url: str | None, **options: object) -> pillion.Connection:
    return pillion.connect(url, sets=SETS, outputs=["out"], **options)  # type: ignore[arg-type]


async def pair(sidecar: FakeSidecar, conn: pillion.Connection) -> FakeWorker:
    """Enter the connection and give the sidecar's end of it."""
    worker, _ = await asyncio.gather(sidecar.accept(), conn.__aenter__())
    return worker


async def event(conn: pillion.Connection, kind: type[E]) -> E:
    got = await anext(conn)
    assert isinstance(got, kind), got
    return got


async def started(worker: FakeWorker, conn: pillion.Connection) -> tuple[FakeTask, pillion.Task]:
    """Bring words/0 to where records flow."""
    fake = await worker.assign("words")
    task = (await event(conn, pillion.Assigned)).task
    conn.opened(task, {"counts": None})
    await worker.expect(m.Opened)
    await worker.restored(fake, wait=False)
    await event(conn, pillion.Restored)
    conn.ready(task)
    await worker.expect(m.Ready)
    return fake, task


@run
async def test_from_hello_to_committed() -> None:
    async with FakeSidecar() as sidecar:
        conn = connect(sidecar.url, group="g")
        worker = await pair(sidecar, conn)
        hello = worker.hello
        assert (hello.group, hello.outputs, hello.client.language) == ("g", ["out"], "python")
        assert hello.credit == m.Window(1 << 20, 1 << 20)
        assert conn.welcome.guarantee == "at_least_once"
        fake, task = await started(worker, conn)
        await worker.records(fake, "words", [(b"a", b"1"), (None, None)])
        batch = (await event(conn, pillion.Records)).batch
        assert (batch.keys, batch.values) == ([b"a", None], [b"1", None])
        done = conn.commit(
            batch,
            changelog={"counts": [(b"a", b"1"), (b"b", None)]},
            outputs={"out": [(None, b"x"), pillion.Record(b"k", None, [("h", b"\xff")], 7)]},
        )
        commit = await worker.commit()
        assert commit.message.source_next == {"words": 2}
        assert commit.changelog == {"counts": [(b"a", b"1"), (b"b", None)]}
        assert commit.outputs == {"out": [(None, b"x"), (b"k", None)]}
        await worker.committed(commit)
        assert (await done).checkpoints == {"counts": "v1:counts:2"}
        await worker.revoke(fake)
        assert (await event(conn, pillion.Revoking)).task is task
        conn.release(task)
        await worker.expect(m.Released)
        await conn.__aexit__(None, None, None)
        assert await worker.closed() == 1000


@run
async def test_only_two_variables_of_the_environment_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("secret\n")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "WS_PROXY", "ws_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with FakeSidecar(token="secret") as sidecar:
        monkeypatch.setenv("PILLION_URL", sidecar.url)
        monkeypatch.setenv("PILLION_TOKEN_FILE", str(tmp_path / "token"))
        conn = connect(None)
        await pair(sidecar, conn)
        await conn.__aexit__(None, None, None)


@run
async def test_a_unix_socket(tmp_path: Path) -> None:
    async with FakeSidecar(path=str(tmp_path / "s")) as sidecar:
        assert sidecar.url == f"unix:{tmp_path}/s"
        conn = connect(sidecar.url)
        await started(await pair(sidecar, conn), conn)
        await conn.__aexit__(None, None, None)


@pytest.mark.parametrize(
    "url", ["http://x", "ws://", "unix:relative", "ws://h:1/path", "ws://[", "x"]
)
def test_a_bad_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(pillion.UsageError, match=r"set PILLION_URL to ws://host:port.*\(bad_url\)"):
        connect(url)


@run
async def test_a_token_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILLION_TOKEN_FILE", "/nowhere/token")
    with pytest.raises(pillion.UsageError) as caught:
        await connect("ws://127.0.0.1:1").__aenter__()
    assert str(caught.value) == (
        "the token file /nowhere/token cannot be read: No such file or directory; set "
        "PILLION_TOKEN_FILE to the file that the sidecar reads its token from (bad_token_file)"
    )


@run
async def test_no_sidecar_with_a_timeout() -> None:
    url = f"ws://127.0.0.1:{free_port()}"
    with pytest.raises(pillion.SidecarUnreachable) as caught:
        await connect(url, connect_timeout=0.2).__aenter__()
    assert str(caught.value) == (
        f"no sidecar answers at {url}; start it with 'pillion run', or set PILLION_URL to where "
        "it listens (sidecar_unreachable)"
    )


@run
async def test_no_sidecar_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    said, heard = asyncio.Event(), list[str]()
    monkeypatch.setattr("pillion._connection.NOTICE_AFTER", 0.1)

    def hear(sentence: str) -> None:
        heard.append(sentence)
        said.set()

    monkeypatch.setattr("pillion._connection.notice", hear)
    port = free_port()
    conn = connect(f"ws://127.0.0.1:{port}")
    entering = asyncio.create_task(conn.__aenter__())
    await said.wait()
    async with FakeSidecar(port=port) as sidecar:
        await sidecar.accept()
        await entering
        await conn.__aexit__(None, None, None)
    assert [sentence.count("(sidecar_unreachable)") for sentence in heard] == [1]


@pytest.mark.parametrize(
    ("status", "code", "advice"),
    [
        (401, "unauthorized", "refuses the token; set PILLION_TOKEN_FILE to"),
        (403, "forbidden", "refuses the handshake's Host or Origin; set PILLION_URL"),
        (404, "not_found", "knows no worker's path there; set PILLION_URL"),
        (400, "bad_subprotocol", "does not speak pillion.v1"),
    ],
)
def test_a_refused_handshake_is_final(status: int, code: str, advice: str) -> None:
    @run
    async def scenario() -> None:
        async with FakeSidecar() as sidecar:
            sidecar.refuse_with = status
            with pytest.raises(pillion.HandshakeRefused, match=advice) as caught:
                await connect(sidecar.url).__aenter__()
            assert (caught.value.code, caught.value.retriable) == (code, False)

    scenario()


@run
async def test_a_busy_sidecar_is_tried_again() -> None:
    async with FakeSidecar() as sidecar:
        sidecar.refuse_with = 503
        conn = connect(sidecar.url)
        entering = asyncio.create_task(conn.__aenter__())
        await sidecar.refused.wait()
        sidecar.refuse_with = None
        await sidecar.accept()
        await entering
        await conn.__aexit__(None, None, None)


@run
async def test_the_connection_breaks_in_the_middle_of_a_commit() -> None:
    async with FakeSidecar(credit=m.Window(32 << 20, 40)) as sidecar:
        conn = connect(sidecar.url)
        worker = await pair(sidecar, conn)
        worker.withhold_credit = True
        fake, task = await started(worker, conn)
        await worker.records(fake, "words", [(b"a", b"1")] * 2)
        batch = (await event(conn, pillion.Records)).batch
        await worker.records(fake, "words", [(b"b", b"1")])  # queued, not taken
        rows = [(b"%d" % i, bytes(200 << 10)) for i in range(4)]  # four frames, credit for one
        first = conn.commit(batch, {"words": 1}, changelog={"counts": rows})
        second = conn.commit(batch)
        await until_frames(worker, 1)
        await worker.cut()
        for future in (first, second):
            with pytest.raises(pillion.ConnectionLost):
                await future
        lost = await event(conn, pillion.Lost)
        assert (lost.task, lost.code, batch.stale) == (task, "connection_lost", True)
        with pytest.raises(pillion.CommitStale):
            await conn.commit(batch)
        worker = await sidecar.accept()
        fake, task = await started(worker, conn)
        assert worker.pending() == []  # nothing of the earlier connection was sent again
        await worker.records(fake, "words", [(b"a", b"1")])
        batch = (await event(conn, pillion.Records)).batch
        done = conn.commit(batch)
        commit = await worker.commit()
        assert commit.message.id == 2
        await worker.committed(commit)
        await done
        await conn.__aexit__(None, None, None)


@pytest.mark.parametrize("code", [1000, 1001, 1011, 4408, 4414, 4500, 4999])
def test_it_comes_again_after(code: int) -> None:
    @run
    async def scenario() -> None:
        async with FakeSidecar() as sidecar:
            conn = connect(sidecar.url)
            worker = await pair(sidecar, conn)
            fake, _ = await started(worker, conn)
            await worker.close(code)
            await event(conn, pillion.Lost)
            await started(await sidecar.accept(), conn)
            assert fake.name == "words/0"
            await conn.__aexit__(None, None, None)

    scenario()


@pytest.mark.parametrize(
    ("code", "kind", "name"),
    [
        (4400, pillion.ProtocolError, "bad_message"),
        (4404, pillion.Refused, "refused"),
        (4409, pillion.Superseded, "superseded"),
        (4410, pillion.VersionMismatch, "version"),
        (4413, pillion.ProtocolError, "too_large"),
        (4429, pillion.ProtocolError, "credit_overrun"),
        (4503, pillion.KafkaFatal, "kafka_fatal"),
    ],
)
def test_it_stays_away_after(code: int, kind: type[pillion.PillionError], name: str) -> None:
    @run
    async def scenario() -> None:
        async with FakeSidecar() as sidecar:
            conn = connect(sidecar.url)
            worker = await pair(sidecar, conn)
            fake, _ = await started(worker, conn)
            await worker.records(fake, "words", [(b"a", b"1")])
            batch = (await event(conn, pillion.Records)).batch
            pending = conn.commit(batch)
            await worker.close(code)
            await event(conn, pillion.Lost)
            with pytest.raises(kind) as caught:
                await anext(conn)
            assert caught.value.code == name
            assert str(caught.value).count("\n") == 0
            with pytest.raises(kind):
                await pending
            with pytest.raises(kind):
                await conn.commit(batch)
            await conn.__aexit__(None, None, None)

    scenario()


@run
async def test_the_error_before_a_close_is_the_sentence() -> None:
    async with FakeSidecar() as sidecar:
        conn = connect(sidecar.url)
        entering = asyncio.create_task(conn.__aenter__())
        worker = await sidecar.accept(welcome=False)
        text = "topic words does not exist at localhost:9092; create it"
        await worker.send(m.Error("unknown_topic", text, re=1))
        await worker.close(4404)
        with pytest.raises(pillion.Refused) as caught:
            await entering
        assert str(caught.value) == f"{text} (unknown_topic)"


@run
async def test_drained_ends_the_iteration() -> None:
    async with FakeSidecar() as sidecar:
        conn = connect(sidecar.url)
        worker = await pair(sidecar, conn)
        await worker.close(4411)
        assert [event async for event in conn] == []
        await conn.__aexit__(None, None, None)


@run
async def test_revoking_overtakes_what_is_queued() -> None:
    async with FakeSidecar() as sidecar:
        conn = connect(sidecar.url)
        worker = await pair(sidecar, conn)
        fake, task = await started(worker, conn)
        for _ in range(5):
            await worker.records(fake, "words", [(b"a", b"1")])
        batch = (await event(conn, pillion.Records)).batch
        await worker.revoke(fake)
        await worker.expect_nothing()  # it has read all of that
        revoking = await event(conn, pillion.Revoking)
        assert (revoking.task, revoking.deadline_ms, revoking.code) == (task, 10_000, "rebalance")
        assert not batch.stale  # it may be finished
        done = conn.commit(batch)
        conn.release(task)
        commit = await worker.commit()
        await worker.expect(m.Released)
        await worker.committed(commit)
        await done
        await conn.__aexit__(None, None, None)


@run
async def test_lost_drops_what_is_queued_and_fences() -> None:
    async with FakeSidecar() as sidecar:
        conn = connect(sidecar.url)
        worker = await pair(sidecar, conn)
        fake, task = await started(worker, conn)
        for _ in range(5):
            await worker.records(fake, "words", [(b"a", b"1")])
        batch = (await event(conn, pillion.Records)).batch
        await worker.lose(fake)
        await worker.expect_nothing()
        assert batch.stale  # at once, before the event is taken
        lost = await event(conn, pillion.Lost)
        assert (lost.task, lost.code, batch.stale) == (task, "fenced", True)
        with pytest.raises(pillion.CommitStale) as caught:
            await conn.commit(batch)
        assert caught.value.retriable
        await conn.__aexit__(None, None, None)


@run
async def test_credit_is_granted_when_user_code_takes_a_frame() -> None:
    async with FakeSidecar() as sidecar:
        conn = connect(sidecar.url, window=1000)
        worker = await pair(sidecar, conn)
        fake, _ = await started(worker, conn)
        await worker.records(fake, "words", [(b"k", bytes(900))])
        await worker.records(fake, "words", [(b"k", bytes(900))])  # any rest permits one frame
        await worker.expect_nothing()
        assert worker.granted.connection == 0
        first = (await event(conn, pillion.Records)).batch
        await worker.until(lambda: worker.granted.connection == 1000 + first.nbytes)
        assert worker.granted.streams == {2: 1000 + first.nbytes}
        await event(conn, pillion.Records)
        idle = asyncio.create_task(anext(conn))
        await worker.until(lambda: worker.granted.connection == 1000 + 2 * first.nbytes)
        idle.cancel()
        await asyncio.wait([idle])
        await conn.__aexit__(None, None, None)


@run
async def test_more_than_the_credit_is_refused() -> None:
    async with FakeSidecar() as sidecar:
        conn = connect(sidecar.url, window=100)
        worker = await pair(sidecar, conn)
        fake, _ = await started(worker, conn)
        for _ in range(2):
            await worker.records(fake, "words", [(b"k", bytes(100))])
        assert await worker.closed() == 4429
        await event(conn, pillion.Lost)
        with pytest.raises(pillion.ProtocolError, match="credit_overrun"):
            await anext(conn)
        await conn.__aexit__(None, None, None)


@run
async def test_the_sidecars_credit_holds_writes_back_but_not_control() -> None:
    async with FakeSidecar(credit=m.Window(1 << 20, 10)) as sidecar:
        conn = connect(sidecar.url)
        worker = await pair(sidecar, conn)
        worker.withhold_credit = True
        fake, task = await started(worker, conn)
        await worker.records(fake, "words", [(b"a", b"1")])
        batch = (await event(conn, pillion.Records)).batch
        rows = [(b"%d" % i, bytes(200 << 10)) for i in range(3)]
        done = conn.commit(batch, changelog={"counts": rows})
        await until_frames(worker, 1)
        conn.fail(task, "a control message")
        await worker.expect(m.Error)  # overtakes
        assert len(worker.pending()) == 1
        await worker.send(m.Credit(1 << 30, {1: 1 << 30}))
        commit = await worker.commit()
        assert [len(frame.data) <= 256 << 10 for frame in commit.frames] == [True] * 3
        assert commit.changelog["counts"] == rows
        await worker.committed(commit)
        await done
        await conn.__aexit__(None, None, None)


@run
async def test_an_epoch_that_is_lost_in_the_middle_of_a_commit() -> None:
    async with FakeSidecar(credit=m.Window(1 << 20, 10)) as sidecar:
        conn = connect(sidecar.url)
        worker = await pair(sidecar, conn)
        worker.withhold_credit = True
        fake, _ = await started(worker, conn)
        await worker.records(fake, "words", [(b"a", b"1")])
        batch = (await event(conn, pillion.Records)).batch
        rows = [(b"%d" % i, bytes(200 << 10)) for i in range(3)]
        begun = conn.commit(batch, changelog={"counts": rows})
        waiting = conn.commit(batch, changelog={"counts": rows})
        await until_frames(worker, 1)
        await worker.lose(fake)
        await event(conn, pillion.Lost)
        with pytest.raises(pillion.CommitStale):
            await waiting  # it never begins
        commit = await worker.commit()  # what has begun is ended, and answered
        assert (len(commit.frames), worker.pending()) == (1, [])
        await worker.send(m.Stale(commit.message.id, fake.name, fake.epoch))
        with pytest.raises(pillion.CommitStale):
            await begun
        await conn.__aexit__(None, None, None)


@run
async def test_what_the_sidecar_would_refuse_is_refused_here() -> None:
    async with FakeSidecar(limits=m.Limits(1000, 1000, 1500, 2)) as sidecar:
        conn = connect(sidecar.url)
        worker = await pair(sidecar, conn)
        fake, task = await started(worker, conn)
        await worker.records(fake, "words", [(b"a", b"1")])
        batch = (await event(conn, pillion.Records)).batch
        refused: list[tuple[dict[str, object], str, str]] = [
            ({"changelog": {"counts": [(None, b"")]}}, "null_key", "has a null key"),
            ({"changelog": {"nope": []}}, "undeclared_output", "is not a table of task words/0"),
            ({"outputs": {"nope": []}}, "undeclared_output", "is not an output of this worker"),
            ({"outputs": {"out": [(b"", bytes(2000))]}}, "record_too_large", "is larger than"),
            ({"outputs": {"out": [(b"", bytes(900))] * 2}}, "commit_too_large", "a commit of"),
            ({"outputs": {"out": [("text", b"")]}}, "usage", "has a str where bytes belong"),
            ({"source_next": {"nope": 1}}, "bad_position", "names the sources"),
        ]
        for arguments, code, text in refused:
            with pytest.raises(pillion.CommitRejected, match=text) as caught:
                conn.commit(batch, **arguments)  # type: ignore[arg-type]
            assert (caught.value.code, caught.value.retriable) == (code, False)
        answers = [conn.commit(batch), conn.commit(batch)]
        with pytest.raises(pillion.CommitRejected, match="2 commits without an answer"):
            conn.commit(task, {"words": 1})
        first = await worker.commit()
        await worker.send(m.Aborted(first.message.id, fake.name, 1, "record_too_large", "too big"))
        second = await worker.commit()
        await worker.send(m.Unknown(second.message.id, fake.name, 1, "kafka_unreachable", "away"))
        with pytest.raises(pillion.CommitAborted, match=r"too big \(record_too_large\)"):
            await answers[0]
        with pytest.raises(pillion.CommitUnknown, match=r"away \(kafka_unreachable\)"):
            await answers[1]
        await conn.__aexit__(None, None, None)


@pytest.mark.parametrize(
    "data",
    [b"", b"\1" * 60, b"\0" * 48, "{", "[]", '{"type":"lost"}', "\ud7ff" * 9,
     encode(RECORDS, 1, 1, 0, 1, [b"k"], [b"v"])],
)  # fmt: skip
def test_hostile_data_ends_in_a_documented_error(data: str | bytes) -> None:
    @run
    async def scenario() -> None:
        async with FakeSidecar() as sidecar:
            conn = connect(sidecar.url)
            worker = await pair(sidecar, conn)
            await started(worker, conn)
            await worker.send_raw(data)
            assert (await worker.expect(m.Error)).code == "bad_message"
            assert await worker.closed() == 4400
            await event(conn, pillion.Lost)
            with pytest.raises(pillion.ProtocolError):
                await anext(conn)
            await conn.__aexit__(None, None, None)

    scenario()


@run
async def test_a_frame_over_the_agreed_size() -> None:
    async with FakeSidecar() as sidecar:
        conn = connect(sidecar.url, max_frame=1000)
        worker = await pair(sidecar, conn)
        fake, _ = await started(worker, conn)
        await worker.records(fake, "words", [(b"k", bytes(2000))])
        await event(conn, pillion.Lost)
        with pytest.raises(pillion.ProtocolError, match=r"more than 1000 bytes.*\(too_large\)"):
            await anext(conn)
        await conn.__aexit__(None, None, None)


@run
async def test_waiting_is_said_once_on_stderr_and_is_an_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    monkeypatch.setattr("pillion._connection.notice", said.append)
    async with FakeSidecar() as sidecar:
        conn = connect(sidecar.url)
        worker = await pair(sidecar, conn)
        away = m.Waiting("kafka_unreachable", "no broker answers at localhost:1; start Kafka")
        for message in (away, away, m.Waiting("ok")):
            await worker.send(message)
            await event(conn, pillion.Waiting)
        await conn.__aexit__(None, None, None)
    assert said == ["no broker answers at localhost:1; start Kafka (kafka_unreachable)"]


@run
async def test_a_reset_store_is_replayed_and_a_gap_is_reported() -> None:
    async with FakeSidecar() as sidecar:
        conn = connect(sidecar.url)
        worker = await pair(sidecar, conn)
        fake = await worker.assign("words")
        task = (await event(conn, pillion.Assigned)).task
        conn.opened(task, {"counts": "v1:old"})
        assert (await worker.expect(m.Opened)).checkpoints == {"counts": "v1:old"}
        await worker.restore(fake, "counts", [(b"a", b"1")])
        taken = (await event(conn, pillion.Restore)).batch
        await worker.restore(fake, "counts", [(b"b", b"1")])
        await worker.reset(fake, "counts", next_offset=7)
        reset = await event(conn, pillion.Reset)
        assert (reset.table, reset.code, taken.stale) == ("counts", "below_log_start", True)
        conn.opened(task, {"counts": None})
        assert (await worker.expect(m.Opened)).re == 2
        await worker.restore(fake, "counts", [(b"c", b"1")])
        assert (await event(conn, pillion.Restore)).batch.base_offset == 7
        stream = fake.assign.tables[0].stream
        await worker.send_raw(encode(RESTORE, stream, 1, 9, 10, [b"d"], [b""], checkpoint="v1:x"))
        error = await worker.expect(m.Error)
        assert (error.code, error.stream, error.task) == ("offset_mismatch", stream, "words/0")
        await worker.restore(fake, "counts", [(b"e", b"1")])  # dropped until it is opened anew
        await worker.lose(fake, "offset_mismatch")
        await event(conn, pillion.Lost)
        await conn.__aexit__(None, None, None)


@run
async def test_stop_ends_the_iteration_and_leaving_flushes() -> None:
    async with FakeSidecar() as sidecar:
        conn = connect(sidecar.url)
        worker = await pair(sidecar, conn)
        fake, _ = await started(worker, conn)
        await worker.records(fake, "words", [(b"a", b"1")])
        batch = (await event(conn, pillion.Records)).batch
        waiting = asyncio.create_task(anext(conn, None))
        await asyncio.sleep(0)
        conn.stop()
        assert await waiting is None
        conn.commit(batch).add_done_callback(lambda future: future.exception())
        await conn.__aexit__(None, None, None)
        await worker.commit()
        with pytest.raises(pillion.UsageError, match="used already"):
            await conn.__aenter__()


@run
async def test_entering_can_be_cancelled() -> None:
    async with FakeSidecar() as sidecar:
        conn = connect(sidecar.url)
        entering = asyncio.create_task(conn.__aenter__())
        worker = await sidecar.accept(welcome=False)
        entering.cancel()
        await asyncio.wait([entering])
        assert await worker.closed() == 1000


async def until_frames(worker: FakeWorker, count: int) -> None:
    await worker.until(lambda: len(worker.pending()) >= count)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@run
async def test_what_is_used_after_the_close_says_so() -> None:
    async with FakeSidecar() as sidecar:
        conn = connect(sidecar.url)
        worker = await pair(sidecar, conn)
        fake, task = await started(worker, conn)
        await worker.records(fake, "words", [(b"k", b"v")])
        batch = (await event(conn, pillion.Records)).batch
        await conn.__aexit__(None, None, None)
        with pytest.raises(pillion.ConnectionLost, match="closed by this side"):
            await conn.commit(batch)
        assert (await event(conn, pillion.Lost)).task is task
        with pytest.raises(pillion.ConnectionLost, match="closed by this side"):
            await anext(conn)


@run
async def test_where_a_key_is() -> None:
    async with FakeSidecar() as sidecar:
        conn = connect(sidecar.url, advertise="10.0.0.7:8080")
        worker = await pair(sidecar, conn)
        assert worker.hello.address == "10.0.0.7:8080"
        assert worker.hello.level == "standby"
        first = asyncio.create_task(conn.locate("counts", b"\x00\xff"))
        second = asyncio.create_task(conn.locate(set="words", partition=3))
        asked = await worker.expect(m.Locate)
        assert asked == m.Locate(2, table="counts", key="AP8=")
        assert await worker.expect(m.Locate) == m.Locate(3, set="words", partition=3)
        await worker.send(m.Error("joining", "not yet", re=3))
        holder, copy = m.Holder("m1", "h:1"), m.Shadow("m2", -1)
        await worker.send(m.Located(2, "words", 1, "words/1", False, holder, [copy]))
        found = await first
        assert found.active == pillion.Holder("m1", "h:1")
        assert found.standbys == (pillion.Shadow("m2", "", None),)
        assert (found.task, found.partition, found.stale) == ("words/1", 1, False)
        with pytest.raises(pillion.LocateError, match=r"not yet \(joining\)") as refused:
            await second
        assert refused.value.retriable
        with pytest.raises(pillion.LocateError, match="too_large"):  # it would end the connection
            await conn.locate("counts", bytes(1 << 20))
        with pytest.raises(pillion.LocateError, match="too_large"):
            await conn.locate("c" * (1 << 18), b"k")
        cut = asyncio.create_task(pillion.Tables(conn).locate("counts", b"k"))
        await worker.expect(m.Locate)
        await worker.cut()
        with pytest.raises(pillion.ConnectionLost):
            await cut
        with pytest.raises(pillion.ConnectionLost):  # nothing is asked of a connection that is over
            await conn.locate("counts", b"k")
        for wrong in ({"table": "counts"}, {"key": b"k"}, {"table": "counts", "key": "k"}):
            with pytest.raises(pillion.UsageError):
                await conn.locate(**wrong)  # type: ignore[arg-type]
        await conn.__aexit__(None, None, None)
