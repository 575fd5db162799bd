"""Readers and writers of lists, dicts and objects, as Python that is compiled once.

The parts that occur most (str, int, float, null) are checked in place, which is what makes them as
fast as the json module; everything else is a call. Names and types of a program get into the
source as literals only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass
from typing import Any

from ._kind import Kind
from ._text import Wrong, number, quote, wrong


def read_list(kind: Kind, name: str) -> Callable[[Any], list[Any]]:
    """Make the reader of a list of one kind."""
    return _compile(
        f"""
def run(found):
    if found.__class__ is not list:
        raise wrong({name!r}, found)
    made = []
    add = made.append
    try:
        for x in found:
            add({_read("x", kind, "read")})
    except Wrong as error:
        raise error.under(len(made)) from None
    return made
""",
        read=kind.read,
    )


def write_items(kind: Kind, name: str, holder: type) -> Callable[[Any], list[str]]:
    """Make what writes the items of a list, tuple or set: a text for each."""
    return _compile(
        f"""
def run(value):
    if value.__class__ is not holder and not isinstance(value, holder):
        raise wrong({name!r}, value)
    made = []
    add = made.append
    try:
        for x in value:
            add({_write("x", kind, "write")})
    except Wrong as error:
        raise error.under(len(made)) from None
    return made
""",
        write=kind.write,
        holder=holder,
    )


def read_dict(key: Kind, kind: Kind, name: str) -> Callable[[Any], dict[Any, Any]]:
    """Make the reader of an object that is a dict."""
    return _compile(
        f"""
def run(found):
    if found.__class__ is not dict:
        raise wrong({name!r}, found)
    made = {{}}
    k = ''
    try:
        for k, x in found.items():
            made[{_read("k", key, "read_key")}] = {_read("x", kind, "read")}
    except Wrong as error:
        raise error.under(k) from None
    return made
""",
        read=kind.read,
        read_key=key.read,
    )


def write_dict(
    key: Kind, kind: Kind, name: str, sort: Callable[[Any], Any] | None
) -> Callable[[Any], str]:
    """Make the writer of an object that is a dict; sort puts its keys in order."""
    return _compile(
        f"""
def run(value):
    if value.__class__ is not dict and not isinstance(value, dict):
        raise wrong({name!r}, value)
    made = []
    add = made.append
    k = None
    try:
        for name, x in {"sort(value)" if sort else "value"}.items():
            k = None
            text = {_write("name", key, "write_key")}
            k = name
            add(text + ':' + ({_write("x", kind, "write")}))
    except Wrong as error:
        raise (error if k is None else error.under(str(k))) from None
    return '{{' + ','.join(made) + '}}'
""",
        write=kind.write,
        write_key=key.write,
        sort=sort,
    )


@dataclass
class Part:
    """A field of a dataclass. default or factory is MISSING where there is none."""

    name: str
    kind: Kind
    default: Any = MISSING
    factory: Any = MISSING
    keyword: bool = False


def read_object(kind: type, parts: list[Part]) -> Callable[[Any], Any]:
    """Make the reader of a dataclass. Fields of the JSON that it does not know are ignored."""
    names: dict[str, Any] = {"kind": kind}
    taken: list[str] = []
    late: list[str] = []
    given: list[str] = []
    keywords: list[str] = []
    for i, part in enumerate(parts):
        names |= {f"r{i}": part.kind.read, f"d{i}": part.default, f"f{i}": part.factory}
        read = f"        v{i} = {_read(f'v{i}', part.kind, f'r{i}')}"
        taken.append(f"        at = {part.name!r}")
        if part.default is MISSING and part.factory is MISSING:
            taken += [f"        v{i} = found[{part.name!r}]", read]
        else:
            taken += [
                f"        v{i} = found.get({part.name!r}, MISSING)",
                f"        if v{i} is not MISSING:",
                f"    {read}",
            ]
            late += [
                f"        if v{i} is MISSING:",
                f"            v{i} = {f'd{i}' if part.factory is MISSING else f'f{i}()'}",
            ]
        if part.keyword:
            keywords.append(f"{part.name}=v{i}")
        else:
            given.append(f"v{i}")
    lines = "\n".join(taken)
    return _compile(
        f"""
def run(found):
    if found.__class__ is not dict:
        raise wrong({kind.__name__!r}, found)
    at = ''
    try:
        pass
{lines}
    except KeyError:
        raise Wrong('is missing').under(at) from None
    except Wrong as error:
        raise error.under(at) from None
    try:
{chr(10).join(late)}
        return kind({", ".join(given + keywords)})
    except (Wrong, RecursionError):
        raise
    except Exception as error:
        why = f'{{type(error).__name__}}: {{error}}'
        raise Wrong(f'is refused by {kind.__name__}: {{why}}') from error
""",
        **names,
    )


def write_object(kind: type, parts: list[Part]) -> Callable[[Any], str]:
    """Make the writer of a dataclass. A value of a subclass is refused: it would come back less."""
    names: dict[str, Any] = {"kind": kind}
    lines: list[str] = []
    text: list[str] = []
    for i, part in enumerate(parts):
        names[f"w{i}"] = part.kind.write
        lines += [
            f"        at = {part.name!r}",
            f"        v = value.{part.name}",
            f"        t{i} = {_write('v', part.kind, f'w{i}')}",
        ]
        text.append(f"{quote(part.name)}:{{t{i}}}")
    body = "\n".join(lines)
    return _compile(
        f"""
def run(value):
    if value.__class__ is not kind:
        raise wrong({kind.__name__!r}, value)
    at = ''
    try:
        pass
{body}
    except AttributeError:
        raise Wrong('is not set').under(at) from None
    except Wrong as error:
        raise error.under(at) from None
    return f{"{{" + ",".join(text) + "}}"!r}
""",
        **names,
    )


def _read(x: str, kind: Kind, call: str) -> str:
    """Give the expression that reads x."""
    return f"{x} if {kind.same.format(x=x)} else {call}({x})" if kind.same else f"{call}({x})"


def _write(x: str, kind: Kind, call: str) -> str:
    """Give the expression that writes x."""
    if kind.quick is None:
        return f"{call}({x})"
    condition, text = kind.quick
    return f"{text.format(x=x)} if {condition.format(x=x)} else {call}({x})"


def _compile(source: str, **names: Any) -> Any:
    scope = {
        "Wrong": Wrong,
        "wrong": wrong,
        "quote": quote,
        "number": number,
        "MISSING": MISSING,
        **names,
    }
    exec(compile(source, "<pillion serdes>", "exec"), scope)
    return scope["run"]
