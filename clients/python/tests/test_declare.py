"""What is declared, and what contradicts itself."""

from __future__ import annotations

from typing import Any

import pytest

import pillion.client as pillion
from pillion import _messages as m
from pillion._declare import declare


def test_flat_declarations() -> None:
    tables = [
        "counts",
        pillion.Table("totals", changelog="log", sources=["a"]),
        pillion.SourceTable("users", "users"),
    ]
    made = declare([], [], ["out"], "g", ["a", "b"], tables)
    assert made.sets == []
    assert made.sources == ["a", "b"]
    assert made.tables == [
        m.FlatTableDeclaration("counts"),
        m.FlatTableDeclaration("totals", changelog="log", sources=["a"]),
        m.FlatTableDeclaration("users", source_topic="users"),
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sources": "a"}, "sources is the string 'a'"),
        ({"sources": ["a"], "sets": [pillion.Set("s", ["b"])]}, "one or the other"),
        ({"tables": ["t"]}, "no sources"),
        ({"sources": ["a", "a"]}, "'a' is declared twice"),
        ({"sources": ["a"], "tables": ["t", "t"]}, "'t' is declared twice"),
        ({"sources": ["a b"]}, "'a b' is no name"),
        ({"sources": ["a"], "tables": [pillion.Table("t", sources=["b"])]}, "not in sources"),
        ({"sets": [pillion.Set("s", ["a"], [pillion.Table("t", sources=["a"])])]}, "has them"),
    ],
)
def test_contradictions(given: dict[str, Any], words: str) -> None:
    with pytest.raises(pillion.UsageError, match=words) as refused:
        pillion.connect("ws://127.0.0.1:1", **given)
    assert refused.value.code == "bad_declaration"
