"""Mistakes in declarations that types would show, said in a sentence to those who check no types.

Each function raises UsageError; what is right passes.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, NoReturn

from .._codes import Code
from ..errors import UsageError
from ..serdes import BYTES
from ._declared import GlobalTable, SourceTable, Table, Topic
from ._policy import DeadLetter, Skip, Stop


def check_topic(decorator: str, topic: object) -> None:
    """A decorator that was given no topic has got the function."""
    if not isinstance(topic, Topic):
        bad(f"{decorator} needs the topic: {decorator}(topic, tables=[...]), not {shown(topic)}")


def check_function(name: str, function: object, arguments: tuple[str, ...]) -> None:
    """A handler takes so many arguments, and is no generator."""
    if not callable(function):
        bad(f"{shown(function)} is no function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        bad(f"{name} has a yield, so that nothing of it would run; make it a function without")
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        bad(f"{name} must take ({', '.join(arguments)})")
    except ValueError:
        pass  # written in C: it does not tell


def check_tables(name: str, tables: object) -> None:
    """tables= is a list of tables."""
    if isinstance(tables, Table | SourceTable | GlobalTable):
        bad(f"tables= of {name} is a list: write tables=[{tables.name}]")
    if isinstance(tables, str) or not isinstance(tables, Iterable):
        bad(f"tables= of {name} is a list of tables, not {shown(tables)}")


def check_policy(name: str, policy: object) -> None:
    """on_error= is a policy, not its class."""
    if isinstance(policy, type):
        inside = "output" if policy is DeadLetter else ""
        bad(f"on_error of {name} is a class; write {policy.__name__}({inside})")
    if not isinstance(policy, Stop | Skip | DeadLetter | None) and not callable(policy):
        bad(
            f"on_error of {name} must be Stop(), Skip(), DeadLetter(output) or a function, not "
            f"{shown(policy)}"
        )
    if isinstance(policy, DeadLetter):
        check_dead_letters(name, policy.output)


def check_dead_letters(name: str, output: object) -> None:
    """Dead letters are written as they came: as bytes."""
    serdes = (getattr(output, "key", None), getattr(output, "value", None))
    if not all(isinstance(serde, type(BYTES)) for serde in serdes):
        bad(
            f"the dead letters of {name} are written as they came; their output must be made with "
            "key=bytes, value=bytes"
        )


def check_default(name: str, default: object) -> None:
    """default= makes a value each time."""
    if default is not None and not callable(default):
        kind = type(default).__name__
        bad(f"default= of table {name!r} must be a function: {kind}, not {default!r}")


def check_number(name: str, value: Any, least: float, *, whole: bool = False) -> None:
    """A number from so much on."""
    right = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, right) or not value >= least:
        bad(f"{name} must be {'an int' if whole else 'a number'} from {least} on, not {value!r}")


def shown(what: object) -> str:
    """Name what a user has put where something of the app belongs."""
    if inspect.isfunction(what) or isinstance(what, type):
        return f"{what.__name__}"
    name = getattr(what, "name", None)
    return f"the {type(what).__name__} {name!r}" if isinstance(name, str) else repr(what)


def bad(message: str) -> NoReturn:
    """Raise the error of a declaration."""
    raise UsageError(message, Code.BAD_DECLARATION)
