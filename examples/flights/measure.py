"""What the demo measures a worker by: its process, and what happened to which task, and when.

STATE/pid is the process; STATE/events.jsonl has a line for each event. From the lines the demo
tells how long a take-over took and how much was replayed for it.
"""

import atexit
import json
import logging
import os
import time
from pathlib import Path

from pillion import Worker, client


def measure(app: Worker, state: Path) -> None:
    """Write the notes of an app that is about to run. Its log is left out: the demo tells the story."""
    logging.basicConfig(level=logging.WARNING)
    state.mkdir(parents=True, exist_ok=True)
    (state / "pid.new").write_text(str(os.getpid()))
    (state / "pid.new").rename(state / "pid")
    notes = (state / "events.jsonl").open("a", buffering=1)
    atexit.register(notes.close)
    fed: dict[str, int] = {}  # the epoch in which a task's records came last

    def note(event: str, task: client.Task, **more: object) -> None:
        if task.role != "global":
            line = {"at": time.time(), "event": event, "task": task.name, "partition": task.partition}
            notes.write(json.dumps(line | more) + "\n")

    @app.watch
    def _(event: client.Event) -> None:
        match event:
            case client.Assigned(task):
                note("assigned", task, role=task.role)
            case client.Restore(task, batch) if batch.name == "plane_stats":
                note("restore", task, records=len(batch), next=batch.next_offset)
            case client.Restored(task) | client.Promoted(task):
                note("whole", task)
            case client.Records(task) if fed.get(task.name) != task.epoch:
                fed[task.name] = task.epoch
                note("records", task)
            case client.Revoking(task) | client.Lost(task) | client.Demoted(task):
                note("left", task)
            case _:
                pass
