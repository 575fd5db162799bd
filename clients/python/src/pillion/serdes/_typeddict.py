"""TypedDict as JSON: a dict of named fields, some of which may be absent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired, Required, cast, get_args, get_origin

from . import _any
from ._hints import hints_of
from ._kind import Kind
from ._text import Wrong, quote, wrong

if TYPE_CHECKING:
    from ._build import Builder


def typed_dict(builder: Builder, hint: type, kind: Kind) -> None:
    """Fill in the kind of a TypedDict."""
    required: set[str] = set(getattr(hint, "__required_keys__", ()))
    kind.classes = (dict,)
    fields: dict[str, Kind] = {}
    for name, each in hints_of(hint).items():
        while get_origin(each) in (Required, NotRequired) or _is_read_only(each):
            # __required_keys__ does not see these where annotations are postponed.
            if get_origin(each) is NotRequired:
                required.discard(name)
            elif get_origin(each) is Required:
                required.add(name)
            each = get_args(each)[0]
        fields[name] = builder.under(name, each)
    names = sorted(fields, key=_any.order) if builder.canonical else list(fields)
    steps = [(name, quote(name), fields[name].write, name in required) for name in names]

    def read(found: Any) -> Any:
        if found.__class__ is not dict:
            raise wrong(hint.__name__, found)
        made: dict[str, Any] = {}
        name = ""
        try:
            for name, each in fields.items():
                if name in found:
                    made[name] = each.read(found[name])
                elif name in required:
                    raise Wrong("is missing")
        except Wrong as error:
            raise error.under(name) from None
        return made

    def write(value: Any) -> str:
        if not isinstance(value, dict):
            raise wrong(hint.__name__, value)
        given = cast("dict[Any, Any]", value)
        parts: list[str] = []
        name = ""
        try:
            for name, quoted, write_field, needed in steps:
                if name in given:
                    parts.append(f"{quoted}:{write_field(given[name])}")
                elif needed:
                    raise Wrong("is missing")
        except Wrong as error:
            raise error.under(name) from None
        if len(parts) != len(given):
            unknown = next(str(each) for each in given if each not in fields)
            raise Wrong(f"is no field of {hint.__name__}").under(unknown)
        return f"{{{','.join(parts)}}}"

    kind.read, kind.write = read, write


def _is_read_only(hint: Any) -> bool:
    return getattr(get_origin(hint), "_name", "") == "ReadOnly"
