"""What the apps of these journeys share: what they say on stdout, and points at which they do what
the test asks for.

JOB_STATE: a directory, with the tables, and with a file at-POINT for what shall happen at a point:

    stop        SIGSTOP itself, once (the test kills it, or lets it go on)
    block N     block the event loop for N seconds, once
    slow N      the same, each time
    hold        await until the test removes the file
    N stop      pass the point N times first
"""

import asyncio
import json
import os
import signal
import time
from pathlib import Path

import pillion.client as client
from pillion import Worker

STATE = Path(os.environ.get("JOB_STATE", "."))


def say(event: str, **fields: object) -> None:
    line = {"event": event, "pid": os.getpid(), "at": time.time(), **fields}
    print(json.dumps(line), flush=True)


def asked(name: str) -> str | None:
    """What the test asks for at this point, now."""
    ask = STATE / f"at-{name}"
    if not ask.exists():
        return None
    *passes, action = ask.read_text().replace("block ", "block:").replace("slow ", "slow:").split()
    if passes and int(passes[0]) > 0:
        ask.write_text(f"{int(passes[0]) - 1} {action}")
        return None
    return action


def point(name: str) -> None:
    action = asked(name)
    if action is None or action == "hold":
        return
    if action.startswith("slow:"):
        time.sleep(float(action.removeprefix("slow:")))
        return
    (STATE / f"at-{name}").unlink()
    say("at", point=name, action=action)
    if action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        time.sleep(float(action.removeprefix("block:")))
    say("goes on", point=name)


async def held(name: str) -> None:
    if asked(name) != "hold":
        return
    say("at", point=name, action="hold")
    while (STATE / f"at-{name}").exists():
        await asyncio.sleep(0.01)
    say("goes on", point=name)


def tell(app: Worker) -> None:
    """Say what happens to the tasks."""
    restored: dict[str, int] = {}

    @app.watch
    def on_event(event: client.Event) -> None:  # pyright: ignore[reportUnusedFunction]
        match event:
            case client.Assigned(task):
                restored[task.name] = 0
                say("assigned", task=task.name, epoch=task.epoch, role=task.role)
            case client.Restore(task, batch):
                restored[task.name] += len(batch)
                say("copied", task=task.name, next=batch.next_offset, records=len(batch))
                point("restore")
            case client.Restored(task):
                say("whole", task=task.name, records=restored[task.name])
                say("active", task=task.name, epoch=task.epoch)
            case client.Promoted(task, _):
                say("promoted", task=task.name, records=restored[task.name])
                say("active", task=task.name, epoch=task.epoch)
            case client.Demoted(task, _):
                say("demoted", task=task.name, epoch=task.epoch)
            case client.Revoking(task, _, code):
                say("revoking", task=task.name, code=code)
            case client.Lost(task, code, message):
                say("lost", task=task.name, code=code, message=message)
            case client.Reset(task, table, code, message):
                say("reset", task=task.name, table=table, code=code, message=message)
            case _:
                pass
