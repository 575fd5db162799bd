"""Type hints, looked at."""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated, Any, NewType, get_args, get_origin, get_type_hints

from ._text import Wrong


def library_of(hint: Any) -> str:
    """Name the library of a class, if it is one that brings its own JSON; else give ""."""
    if isinstance(hint, type):
        for name, base in (("pydantic", "BaseModel"), ("msgspec", "Struct")):
            found = getattr(sys.modules.get(name), base, None)
            if isinstance(found, type) and issubclass(hint, found):
                return name
    return ""


def is_typed_dict(hint: Any) -> bool:
    """Whether it is a TypedDict, that of typing_extensions too."""
    return hasattr(hint, "__required_keys__")


def hints_of(hint: type) -> dict[str, Any]:
    """Give the types of a class's fields, names resolved."""
    try:
        return get_type_hints(hint, localns={hint.__name__: hint}, include_extras=True)
    except Exception as error:
        raise Wrong(
            f"is {hint.__name__}, whose types cannot be told: {error}; "
            "classes that it names must be known to its module"
        ) from None


def bare(hint: Any) -> Any:
    """Take off Annotated, NewType and the names of `type X = ...`."""
    while True:
        if get_origin(hint) is Annotated:
            hint = get_args(hint)[0]
        elif isinstance(hint, NewType):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        else:
            return hint


def fields_of(hint: type[Any]) -> dict[str, Any]:
    """Give the types of the fields of a dataclass, a model of pydantic or a struct of msgspec."""
    library = library_of(hint)
    if library == "pydantic":
        return {name: field.annotation for name, field in hint.model_fields.items()}
    hints = hints_of(hint)
    if library == "msgspec":
        return {name: hints[name] for name in hint.__struct_fields__}
    return {field.name: hints[field.name] for field in dataclasses.fields(hint)}
