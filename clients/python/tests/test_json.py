"""Control messages: hostile text never ends in anything but MessageError."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillion._json import decode, encode
from pillion._messages import BY_TYPE
from pillion.client import MessageError
from spec import SPEC, load

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
EXAMPLES: list[dict[str, Any]] = [
    case["decoded"]
    for path in sorted((SPEC / "vectors" / "messages").glob("*.json"))
    for case in load(path)["valid"]
    if case["decoded"]
]


def check(text: str | bytes) -> None:
    try:
        message = decode(text)
    except MessageError:
        return
    if message is not None:
        assert decode(encode(message)) == message


@given(st.text() | st.binary())
def test_any_text(text: str | bytes) -> None:
    check(text)


@given(st.sampled_from(sorted(BY_TYPE)), st.dictionaries(st.text(max_size=9), JSON))
def test_any_object(kind: str, body: dict[str, Any]) -> None:
    check(json.dumps({**body, "type": kind}))


@given(st.sampled_from(EXAMPLES), st.data())
def test_a_changed_message(example: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(example)))
    check(json.dumps({**example, key: data.draw(JSON)}))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 10_000, "1e999", "NaN"])
def test_extremes(text: str) -> None:
    check(text)
    check('{"type":"lost","epoch":' + text + "}")
