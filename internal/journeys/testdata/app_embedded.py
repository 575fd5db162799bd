"""A program of its own that runs an app beside itself, and looks into its tables all the time.

Its arguments: topic, the address that it advertises, and keys that it locates. It ends by SIGTERM.
"""

import asyncio
import signal
import sys

import pillion
from app_common import STATE, say, tell
from pillion import Context, HandlerFailed, Record, Worker

TOPIC, ADDRESS, *KEYS = sys.argv[1:]

app = Worker(state_dir=STATE / "tables", advertise=ADDRESS)
source = app.topic(TOPIC, key=str, value=str)
latest = app.table("latest", key=str, value=str)
tell(app)


@app.each(source, tables=[latest])
async def on_record(record: Record[str, str], ctx: Context) -> None:
    assert record.key is not None and record.value is not None
    ctx[latest][record.key] = record.value
    if record.value == "bad":
        raise ValueError("no good")


async def owner(key: str) -> str:
    try:
        found = await app.locate(latest, key)
    except pillion.LocateError as error:
        return error.code
    return found.active.address if found.active and not found.stale else "nobody"


async def look(done: asyncio.Event) -> None:
    before: dict[str, object] = {}
    while not done.is_set():
        said: dict[str, object] = {f"row {key}": value for key, value in app.local(latest).items()}
        said |= {f"owner {key}": await owner(key) for key in KEYS}
        if said != before:
            say("looked", **said)
        before = said
        await asyncio.sleep(0.02)


async def main() -> None:
    done = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, done.set)
    say("start")
    try:
        async with app.running():
            await app.ready()
            say("ready")
            try:
                await look(done)
            except (pillion.UsageError, pillion.Drained):
                say("over")  # the sidecar has drained
                await done.wait()
    except HandlerFailed as error:
        say("failed", message=error.message, cause=repr(error.__cause__))
        sys.exit(5)
    say("left")


if __name__ == "__main__":
    asyncio.run(main())
