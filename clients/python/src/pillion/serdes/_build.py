"""From a Python type to its Kind; what is not understood is refused in words, at declaration."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin
from uuid import UUID

from . import _any, _codegen, _kind
from ._hints import bare, fields_of, hints_of, is_typed_dict, library_of
from ._kind import Kind
from ._text import Wrong
from ._typeddict import typed_dict

_ADVICE = {
    "bytes": "JSON has no bytes; use str, or a Serde of your own",
    "complex": "JSON has no complex numbers",
    "Sequence": "write list[X] or tuple[X, ...]",
    "Mapping": "write dict[str, X]",
    "tuple": "write tuple[X, ...]",
    "set": "write set[X]",
    "frozenset": "write frozenset[X]",
    "time": "write str",
    "timedelta": "write float (seconds)",
}


class Foreign(Exception):
    """A type that belongs to a library which reads and writes JSON itself."""

    def __init__(self, library: str) -> None:
        super().__init__(library)
        self.library = library


class Builder:
    """Makes kinds, each dataclass once. Raises Wrong for what it refuses, Foreign for other's.

    untyped: whether any JSON may stand somewhere in what it made.
    normalises: whether values that look different and are equal (sets, datetimes) get the same
    text.
    """

    def __init__(self, *, canonical: bool, within: frozenset[Any] = frozenset()) -> None:
        self.canonical = canonical
        self._within = within
        self.untyped = False
        self.normalises = False
        self._made: dict[Any, Kind] = {}
        integer = _kind.EXACT if canonical else _kind.INT
        self._leaves: dict[Any, Kind] = {
            str: _kind.STR,
            bool: _kind.BOOL,
            int: integer,
            float: _kind.FLOAT,
            None: _kind.NULL,
            NoneType: _kind.NULL,
            datetime: _kind.DATETIME,
            date: _kind.DATE,
            UUID: _kind.UUID_,
            Decimal: _kind.DECIMAL,
        }
        self._integer = _any.exact if canonical else _any.integer

    def kind(self, hint: Any) -> Kind:
        """Make the kind of a type."""
        hint = bare(hint)
        origin, args = get_origin(hint), get_args(hint)
        if hint is Decimal and self.canonical:
            raise Wrong("is Decimal, which has no canonical form: 1.0 equals 1.00; use str")
        if self._is_leaf(hint):
            self.normalises |= hint is datetime
            return self._leaves[hint]
        if hint is Any or hint is object:
            return self._any()
        if origin in (Union, UnionType):
            return self._union(args)
        if origin is Literal:
            return self._literal(args)
        if hint is list or origin is list:
            return self._list(args)
        if hint is dict or origin is dict:
            return self._dict(args)
        if origin is tuple:
            return self._tuple(args)
        if origin in (set, frozenset):
            return self._set(origin, args)
        if library := library_of(hint):
            if self.canonical and hint not in self._within:
                self._check_canonical(hint, library)
            raise Foreign(library)
        if isinstance(hint, type):
            return self._class(cast("type[Any]", hint))
        raise _refused(hint)

    def _check_canonical(self, hint: type[Any], library: str) -> None:
        """Refuse a type of a library that writes equal values in more than one way."""
        for name, each in fields_of(hint).items():
            fields = Builder(canonical=True, within=self._within | {hint})
            try:
                fields.under(name, each)
            except Foreign:  # a class of the library is looked at on its own
                fields.normalises = not library_of(bare(each))
            if fields.normalises:
                raise Wrong(
                    f"may be written in several ways by {library}: as a key use a dataclass, "
                    "or fields that are no set, datetime or class"
                ).under(name)

    def _is_leaf(self, hint: Any) -> bool:
        try:
            return hint in self._leaves
        except TypeError:
            return False

    def _class(self, hint: type[Any]) -> Kind:
        if issubclass(hint, enum.Enum):
            return self._enum(hint)
        if dataclasses.is_dataclass(hint):
            return self._dataclass(hint)
        if is_typed_dict(hint):
            return self._once(hint, lambda kind: typed_dict(self, hint, kind))
        raise _refused(hint)

    def _any(self) -> Kind:
        self.untyped = True
        write = _any.writer(canonical=self.canonical)
        tokens = frozenset(_kind.TOKENS.values())
        return Kind("any JSON", tokens, (object,), lambda found: found, write)

    def _list(self, args: tuple[Any, ...]) -> Kind:
        item = self._any() if not args else self.under("[]", args[0])
        return _array(list, item, f"list[{item.name}]")

    def _dict(self, args: tuple[Any, ...]) -> Kind:
        key = _kind.NAME if not args or args[0] is str else self.under("{}", args[0])
        item = self._any() if not args else self.under("{}", args[1])
        if key.tokens == frozenset(("int",)):
            key = _kind.as_name(key)
        if key.tokens != frozenset(("str",)) or (self.canonical and key is not _kind.NAME):
            also = "" if self.canonical else ", int, Enum of str, UUID, date or datetime"
            raise Wrong(f"is a dict with keys of {key.name}: JSON has names, so str{also}")
        name = f"dict[{key.name}, {item.name}]"
        sort = _any.sort if self.canonical else None
        return Kind(
            name,
            frozenset(("object",)),
            (dict,),
            _codegen.read_dict(key, item, name),
            _codegen.write_dict(key, item, name, sort),
        )

    def _tuple(self, args: tuple[Any, ...]) -> Kind:
        if len(args) == 2 and args[1] is Ellipsis:
            item = self.under("[]", args[0])
            return _array(tuple, item, f"tuple[{item.name}, ...]")
        kinds = [self.under(f"[{i}]", each) for i, each in enumerate(args)]
        return _kind.fixed(kinds)

    def _set(self, holder: type, args: tuple[Any, ...]) -> Kind:
        item = self.under("[]", args[0])
        name = f"{holder.__name__}[{item.name}]"
        if not item.scalar:
            raise Wrong(f"is {name}: items of a set must be single values; use list")
        self.normalises = True
        return _array(holder, item, name)

    def _union(self, args: tuple[Any, ...]) -> Kind:
        left = [each for each in args if each is not NoneType]
        nullable = len(left) != len(args)
        kinds: list[Kind] = []
        if int in left and float in left:
            left = [each for each in left if each not in (int, float)]
            kinds.append(_kind.int_or_float(canonical=self.canonical))
        kinds += [self.kind(each) for each in left]
        seen: dict[str, Kind] = {}
        for kind in kinds:
            for token in kind.tokens:
                if token in seen:
                    both = f"{seen[token].name} and {kind.name}"
                    raise Wrong(f"is a union of {both}, which JSON cannot tell apart")
                seen[token] = kind
        made = kinds[0] if len(kinds) == 1 else _kind.union(kinds)
        return _kind.optional(made) if nullable and "null" not in made.tokens else made

    def _literal(self, args: tuple[Any, ...]) -> Kind:
        for each in args:
            if each.__class__ not in (str, int, bool, NoneType):
                raise Wrong(f"is a Literal of {type(each).__name__}: use str, int, bool or None")
        name = f"Literal[{', '.join(map(repr, args))}]"
        return _kind.one_of(name, [(each, each) for each in args], self._integer)

    def _enum(self, hint: type[enum.Enum]) -> Kind:
        values = [(member.value, member) for member in hint]
        if issubclass(hint, enum.Flag) or not values:
            raise Wrong(f"is {hint.__name__}, a Flag or an Enum without members; use int or str")
        for value, _ in values:
            if value.__class__ not in (str, int):
                raise Wrong(f"is {hint.__name__}, an Enum of other values than str and int")
        return _kind.one_of(hint.__name__, values, self._integer)

    def _dataclass(self, hint: type) -> Kind:
        return self._once(hint, lambda kind: self._fill_dataclass(hint, kind))

    def _once(self, hint: type, fill: Callable[[Kind], None]) -> Kind:
        """Make the kind of a class once; in a class that holds itself it is not whole yet."""
        if hint in self._made:
            return self._made[hint]
        kind = Kind(
            hint.__name__,
            frozenset(("object",)),
            (hint,),
            lambda found: kind.read(found),
            lambda value: kind.write(value),
        )
        self._made[hint] = kind
        fill(kind)
        return kind

    def _fill_dataclass(self, hint: type, kind: Kind) -> None:
        hints = hints_of(hint)
        for name, each in hints.items():
            if isinstance(each, dataclasses.InitVar):
                lost = f"is an InitVar of {hint.__name__}: it could not be written"
                raise Wrong(lost).under(name)
        parts: list[_codegen.Part] = []
        for field in dataclasses.fields(hint):
            if not field.init:
                lost = f"is init=False in {hint.__name__}: it could not be read"
                raise Wrong(lost).under(field.name)
            part = self.under(field.name, hints[field.name])
            factory: Any = field.default_factory
            keyword = field.kw_only is True
            parts.append(_codegen.Part(field.name, part, field.default, factory, keyword))
        kind.read = _codegen.read_object(hint, parts)
        written = sorted(parts, key=lambda part: _any.order(part.name))
        kind.write = _codegen.write_object(hint, written if self.canonical else parts)

    def under(self, part: str, hint: Any) -> Kind:
        """Make the kind of a part; what is refused names it."""
        try:
            return self.kind(hint)
        except Wrong as error:
            raise error.under(part) from None


def _array(holder: type, item: Kind, name: str) -> Kind:
    """Make the kind of a list, tuple or set of one kind."""
    read, texts = _codegen.read_list(item, name), _codegen.write_items(item, name, holder)

    def read_other(found: Any) -> Any:
        return holder(read(found))

    def write(value: Any) -> str:
        return f"[{','.join(texts(value))}]"

    def write_sorted(value: Any) -> str:
        # Equal sets have equal bytes, whatever their history.
        return f"[{','.join(sorted(texts(value)))}]"

    return Kind(
        name,
        frozenset(("list",)),
        (holder,),
        read if holder is list else read_other,
        write_sorted if issubclass(holder, (set, frozenset)) else write,
    )


OTHERWISE = "make it a dataclass, or give a Serde of your own"


def _refused(hint: Any) -> Wrong:
    name = hint.__name__ if isinstance(hint, type) else str(hint).removeprefix("typing.")
    advice = _ADVICE.get(getattr(hint, "__name__", ""), OTHERWISE)
    return Wrong(f"is {name}, which json does not take: {advice}")
