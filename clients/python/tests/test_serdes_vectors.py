"""The vectors of spec/serdes, which every language shares."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any
from uuid import UUID

import pytest

from pillion.serdes import BYTES, FLOAT, INT, STR, Serde, SerdeError, json
from spec import SPEC, load

FILES = {path.stem: load(path) for path in sorted((SPEC / "serdes").glob("*.json"))}


def cases(file: str, *lists: str) -> list[Any]:
    return [
        pytest.param(each, id=each.get("name"))
        for name in lists or ("valid",)
        for each in FILES[file].get(name, [])
    ]


def raw(case: Any) -> bytes:
    return bytes.fromhex(case["hex"]) if "hex" in case else case["text"].encode()


def refused(serde: Serde[Any], case: Any) -> SerdeError:
    with pytest.raises(SerdeError) as caught:
        serde.decode(raw(case))
    return caught.value


def test_every_file_has_a_test() -> None:
    assert set(FILES) == {"str", "bytes", "int", "float", "json", "canonical", "types"}


@pytest.mark.parametrize("case", cases("str"))
def test_str(case: Any) -> None:
    assert STR.encode(case["value"]) == raw(case)
    assert STR.decode(raw(case)) == case["value"]


@pytest.mark.parametrize("case", cases("bytes"))
def test_bytes(case: Any) -> None:
    assert BYTES.encode(raw(case)) == raw(case) == BYTES.decode(raw(case))


@pytest.mark.parametrize("case", cases("int"))
def test_int(case: Any) -> None:
    assert INT.encode(int(case["value"])) == raw(case)
    assert INT.decode(raw(case)) == int(case["value"])


@pytest.mark.parametrize("case", cases("float"))
def test_float(case: Any) -> None:
    found = FLOAT.decode(raw(case))
    assert FLOAT.encode(found) == raw(case)
    if case["value"] == "NaN":
        assert found != found
    else:
        assert struct.pack(">d", float(case["value"])) == raw(case)


@pytest.mark.parametrize("case", cases("str", "invalid"))
def test_invalid_str(case: Any) -> None:
    refused(STR, case)


@pytest.mark.parametrize("case", cases("int", "invalid"))
def test_invalid_int(case: Any) -> None:
    refused(INT, case)


@pytest.mark.parametrize("case", cases("float", "invalid"))
def test_invalid_float(case: Any) -> None:
    refused(FLOAT, case)


@pytest.mark.parametrize("case", cases("int", "refused"))
def test_refused_int(case: Any) -> None:
    with pytest.raises(SerdeError, match="does not fit a Long"):
        INT.encode(int(case["value"]))


@pytest.mark.parametrize("case", cases("json"))
def test_json(case: Any) -> None:
    assert json().encode(case["value"]) == raw(case)
    assert json().decode(raw(case)) == case["value"]


@pytest.mark.parametrize("case", cases("json", "numbers"))
def test_json_number(case: Any) -> None:
    given = float(case["value"])
    assert json(float).encode(given) == raw(case)
    assert json(float).decode(raw(case)) == given
    untyped: bytes = case.get("untyped", case["text"]).encode()
    assert json().encode(given) == json(int | float).encode(given) == untyped
    assert json().decode(untyped) == json(int | float).decode(untyped) == given


@pytest.mark.parametrize("case", cases("canonical"))
def test_canonical(case: Any) -> None:
    serde = json(canonical=True)
    assert serde.encode(case["value"]) == raw(case)
    assert serde.decode(raw(case)) == case["value"]


@pytest.mark.parametrize("case", cases("canonical", "numbers"))
def test_canonical_number(case: Any) -> None:
    for serde in (json(canonical=True), json(float, canonical=True)):
        assert serde.encode(float(case["value"])) == raw(case)
        assert serde.decode(raw(case)) == float(case["value"])


@pytest.mark.parametrize("case", cases("json", "reads"))
def test_json_reads(case: Any) -> None:
    assert json().decode(raw(case)) == case["value"]


@pytest.mark.parametrize("case", cases("json", "invalid"))
def test_invalid_json(case: Any) -> None:
    refused(json(), case)


@pytest.mark.parametrize("case", cases("canonical", "invalid"))
def test_invalid_canonical(case: Any) -> None:
    refused(json(canonical=True), case)


@pytest.mark.parametrize("case", cases("canonical", "refused"))
def test_refused_canonical(case: Any) -> None:
    text: str = case["value"]
    with pytest.raises(SerdeError, match="past 2\\^53-1"):
        json(canonical=True).encode(float(text) if "e" in text else int(text))


SINGLE = {
    "str": str, "int": int, "float": float, "bool": bool,
    "datetime": datetime, "date": date, "uuid": UUID,
}  # fmt: skip


def hint(text: str, leg: Any) -> Any:
    """Read the type of a field as the vectors have it."""
    if text.endswith(" or null"):
        return hint(text.removesuffix(" or null"), leg) | None
    for word, make in (("list of ", list), ("map of ", dict), ("set of ", set)):
        if text.startswith(word):
            item = hint(text.removeprefix(word), leg)
            return make[str, item] if make is dict else make[item]  # type: ignore[index]
    return leg if text == "leg" else SINGLE[text]


def made(name: str, fields: list[Any], leg: Any = None) -> Any:
    return dataclasses.make_dataclass(
        name,
        [
            (each["name"], hint(each["type"], leg), dataclasses.field(default=each["default"]))
            if "default" in each
            else (each["name"], hint(each["type"], leg))
            for each in fields
        ],
    )


def value(kind: Any, leg: Any, fields: list[Any], given: dict[str, Any]) -> Any:
    def one(text: str, found: Any) -> Any:
        if text == "datetime":
            return datetime.fromisoformat(found)
        if text == "date":
            return date.fromisoformat(found)
        if text == "uuid":
            return UUID(found)
        if text == "list of leg":
            return [leg(**each) for each in found]
        return set(found) if text.startswith("set of ") else found

    return kind(**{each["name"]: one(each["type"], given[each["name"]]) for each in fields})


def typed() -> Iterator[Any]:
    for case in FILES["types"]["types"]:
        leg = made("leg", case["leg"]) if "leg" in case else None
        yield pytest.param(case, made("T", case["fields"], leg), leg, id=case["name"])


@pytest.mark.parametrize(("case", "kind", "leg"), list(typed()))
def test_types(case: Any, kind: Any, leg: Any) -> None:
    serde: Serde[Any] = json(kind)
    canonical: Serde[Any] = json(kind, canonical=True)
    for each in case["valid"]:
        due = value(kind, leg, case["fields"], each["value"])
        assert serde.encode(due) == each["text"].encode()
        assert serde.decode(each["text"].encode()) == due
        assert canonical.encode(due) == each["canonical"].encode()
        assert canonical.decode(each["canonical"].encode()) == due
    for each in case["reads"]:
        due = value(kind, leg, case["fields"], each["value"])
        assert serde.decode(each["text"].encode()) == due
        refused(canonical, each)
    for each in case["invalid"]:
        where = f"field '{each['field']}' " if each["field"] else "the JSON "
        assert refused(serde, each).message.startswith(where)
        refused(canonical, each)
