"""An app with the mistake that its test asks for. JOB_IN, JOB_OUT: topics that exist."""

import os
from dataclasses import dataclass

from app_common import STATE
from pillion import Context, DeadLetter, Record, Skip, Worker

SOURCE, OUTPUT, MISTAKE = os.environ["JOB_IN"], os.environ["JOB_OUT"], os.environ["MISTAKE"]

app, other = Worker(state_dir=STATE / "tables"), Worker()
source = app.topic(SOURCE, key=str, value=str)
counts = app.table("counts", key=str, value=int, default=int)
elsewhere = other.output("elsewhere", key=str, value=str)
letters = other.output("letters", key=bytes, value=bytes)


@dataclass
class Point:
    x: int


@app.each(source, tables=[counts], on_error=Skip())
def on_record(record: Record[str, str], ctx: Context) -> None:
    match MISTAKE:
        case "undeclared output":
            ctx.send(elsewhere, key=record.key)
        case "undeclared table":
            ctx[unused][record.key or ""] = 1
        case _:
            pass


def another(record: Record[str, str], ctx: Context) -> None:
    pass


def late(ctx: Context) -> None:
    pass


match MISTAKE:
    case "two sets":
        app.each(app.topic("second", key=str, value=str), tables=[counts])(another)
    case "two handlers":
        app.each(source)(another)
    case "no handler":
        app.topic("second", key=str, value=str)
    case "table of nobody":
        app.table("unused", key=str, value=int)
    case "undeclared table":
        unused = app.table("unused", key=str, value=int)
        app.each(app.topic(OUTPUT, key=str, value=str), tables=[unused])(another)
    case "topic of another app":
        app.each(other.topic("second", key=str, value=str))(another)
    case "table of another app":
        app.each(
            app.topic("second", key=str, value=str), tables=[other.table("t", key=str, value=int)]
        )(another)
    case "dead letters":
        app.each(app.topic("second", key=str, value=str), on_error=DeadLetter(letters))(another)
    case "no time":
        app.every()(late)
    case "time of two sets":
        app.each(app.topic("second", key=str, value=str))(another)
        app.every(seconds=1)(late)
    case "declared twice":
        app.topic(SOURCE, key=str, value=str)
    case "key of no one form":
        app.topic("second", key=Point, value=str)
    case _:
        pass

if __name__ == "__main__":
    app.run()
