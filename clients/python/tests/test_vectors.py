"""Every vector of the specification."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from pillion import _json, _messages
from pillion._batch import Batch
from pillion._codes import MessageType
from pillion._encode import encode
from pillion._frames import RECORDS, RESTORE, WRITES, Frame, parse
from pillion._tasks import Task
from pillion.errors import FrameError, MessageError
from spec import SPEC, load, raw

KINDS = {"records": RECORDS, "restore": RESTORE, "writes": WRITES}
MESSAGES = sorted((SPEC / "vectors" / "messages").glob("*.json"))
FRAMES = sorted((SPEC / "vectors" / "frames").glob("*.json"))
TASK = Task("t/0", "t", 0, "active", 1, {}, {}, {})


def cases(files: list[Path], which: str) -> list[Any]:
    return [
        pytest.param(case, id=f"{path.stem}: {case['name']}")
        for path in files
        for case in load(path)[which]
    ]


def text_of(case: dict[str, Any]) -> str | bytes:
    return bytes.fromhex(case["hex"]) if "hex" in case else case.get("text", "")


def without_empty(message: Any) -> Any:
    """An optional field that is absent equals one that is empty."""
    if isinstance(message, dict):
        parts = cast("dict[str, Any]", message).items()
        return {k: without_empty(v) for k, v in parts if v not in (None, "", 0, [], {})}
    if isinstance(message, list):
        return [without_empty(each) for each in cast("list[Any]", message)]
    return message


def test_every_message_and_frame_kind_has_vectors() -> None:
    assert {path.stem for path in MESSAGES} >= {kind.value for kind in MessageType}
    assert {path.stem for path in FRAMES} == KINDS.keys()
    assert set(_messages.BY_TYPE) == {kind.value for kind in MessageType}


@pytest.mark.parametrize("case", cases(MESSAGES, "valid"))
def test_valid_message(case: dict[str, Any]) -> None:
    message = _json.decode(text_of(case))
    if case["decoded"] is None:
        assert message is None
        return
    assert message is not None
    text = _json.encode(message)
    assert _json.decode(text) == message
    assert without_empty(json.loads(text)) == without_empty(case["decoded"])


@pytest.mark.parametrize("case", cases(MESSAGES, "invalid"))
def test_invalid_message(case: dict[str, Any]) -> None:
    with pytest.raises(MessageError) as caught:
        _json.decode(text_of(case))
    assert (caught.value.code, caught.value.re) == (case["code"], case["re"])


def decoded(frame: Frame) -> dict[str, Any]:
    batch = Batch(frame, TASK, "t", "t")
    stamps = batch.timestamps
    return {
        "kind": frame.kind,
        "stream": frame.stream,
        "epoch": frame.epoch,
        "base": frame.base,
        "next": frame.next,
        "log_append_time": batch.log_append_time,
        "checkpoint": batch.checkpoint or "",
        "records": [
            (
                batch.offsets[i],
                stamps[i] if stamps else None,
                batch.keys[i],
                batch.values[i],
                batch.headers(i),
            )
            for i in range(len(batch))
        ],
    }


def wanted(frame: dict[str, Any]) -> dict[str, Any]:
    base: int = frame["base"] if "base" in frame else frame["commit"]
    return {
        "kind": KINDS[frame["kind"]],
        "stream": frame["stream"],
        "epoch": frame["epoch"],
        "base": base,
        "next": frame.get("next", 0),
        "log_append_time": frame.get("log_append_time", False),
        "checkpoint": frame.get("checkpoint", ""),
        "records": [
            (
                record.get("offset", base + i),
                int(record["timestamp"]) if "timestamp" in record else None,
                raw(record["key"]),
                raw(record["value"]),
                [
                    ((raw(k) or b"").decode("utf-8", "surrogateescape"), raw(v))
                    for k, v in record.get("headers", [])
                ],
            )
            for i, record in enumerate(frame["records"])
        ],
    }


@pytest.mark.parametrize("case", cases(FRAMES, "valid"))
def test_valid_frame(case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["hex"])
    frame = parse(data)
    assert decoded(frame) == wanted(case["frame"])
    for shift in range(8):
        buffer = memoryview(bytes(shift) + data)
        assert decoded(parse(bytes(buffer[shift:]))) == wanted(case["frame"])


@pytest.mark.parametrize("case", cases(FRAMES, "valid"))
def test_any_other_length_is_refused(case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["hex"])
    for bad in [*(data[:n] for n in range(len(data))), data + b"\0"]:
        with pytest.raises(FrameError):
            parse(bad)


@pytest.mark.parametrize("case", cases(FRAMES, "invalid"))
def test_invalid_frame(case: dict[str, Any]) -> None:
    with pytest.raises(FrameError) as caught:
        parse(bytes.fromhex(case["hex"]))
    assert caught.value.reason == case["reason"]


@pytest.mark.parametrize("case", cases(FRAMES, "valid"))
def test_encoding_gives_a_frame_of_the_same_meaning(case: dict[str, Any]) -> None:
    frame = wanted(case["frame"])
    rows = frame["records"]
    gaps = [row[0] for row in rows] != list(range(frame["base"], frame["base"] + len(rows)))
    data = encode(
        frame["kind"],
        frame["stream"],
        frame["epoch"],
        frame["base"],
        frame["next"],
        [row[2] for row in rows],
        [row[3] for row in rows],
        timestamps=[row[1] for row in rows] if rows and rows[0][1] is not None else None,
        log_append_time=frame["log_append_time"] and bool(rows) and rows[0][1] is not None,
        offsets=[row[0] for row in rows] if gaps else None,
        headers=[row[4] for row in rows] if any(row[4] for row in rows) else None,
        checkpoint=frame["checkpoint"],
    )
    again = decoded(parse(data))
    again["log_append_time"] = frame["log_append_time"]
    assert again == frame
