"""The reference job: a count per key, and one output for each input.

JOB_IN, JOB_OUT: topics. JOB_PAD: the least size of a row. JOB_WINDOW: credit. JOB_STATE: a directory,
with the tables, and with what the test asks for: a file at-POINT makes the worker do what it says,
once, when it comes to that point:

    stop        SIGSTOP itself (the test kills it, or lets it go on)
    block N     block the event loop for N seconds
    N stop      pass the point N times first
"""

import json
import os
import signal
import time
from pathlib import Path

import pillion.client as pillion

SOURCE = os.environ["JOB_IN"]
OUTPUT = os.environ["JOB_OUT"]
STATE = Path(os.environ["JOB_STATE"])
PAD = int(os.environ["JOB_PAD"])
WINDOW = int(os.environ["JOB_WINDOW"])


def say(event: str, **fields: object) -> None:
    line = {"event": event, "pid": os.getpid(), "at": time.time(), **fields}
    print(json.dumps(line), flush=True)


def point(name: str) -> None:
    ask = STATE / f"at-{name}"
    if not ask.exists():
        return
    *passes, action = ask.read_text().replace("block ", "block:").split()
    if passes and int(passes[0]) > 0:
        ask.write_text(f"{int(passes[0]) - 1} {action}")
        return
    ask.unlink()
    say("at", point=name, action=action)
    if action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        time.sleep(float(action.removeprefix("block:")))
    say("goes on", point=name)


def checkpoint_of(tables: pillion.Tables, task: pillion.Task) -> str | None:
    try:
        return tables[task]["counts"].store.checkpoint()
    except pillion.UsageError:  # its store could not be opened; it is assigned anew
        return None


async def main() -> None:
    say("start")
    job = pillion.Set("job", [SOURCE], ["counts"])
    restored: dict[str, int] = {}
    async with pillion.connect(sets=[job], outputs=[OUTPUT], window=WINDOW) as conn:
        say("connected")
        with pillion.Tables(conn, pillion.SqliteStores(STATE / "tables")) as tables:
            async for event in tables:
                match event:
                    case pillion.Assigned(task):
                        restored[task.name] = 0
                        checkpoint = checkpoint_of(tables, task)
                        say(
                            "assigned", task=task.name, epoch=task.epoch, checkpoint=checkpoint,
                            role=task.role,
                        )  # fmt: skip
                    case pillion.Restore(task, batch):
                        restored[task.name] += len(batch)
                        say("copied", task=task.name, next=batch.next_offset, records=len(batch))
                        point("restore")
                    case pillion.Restored(task):
                        say("whole", task=task.name, records=restored[task.name])
                        say("active", task=task.name, epoch=task.epoch)
                    case pillion.Promoted(task, _):
                        say("promoted", task=task.name, records=restored[task.name])
                        say("active", task=task.name, epoch=task.epoch)
                    case pillion.Demoted(task, _):
                        say("demoted", task=task.name, epoch=task.epoch)
                    case pillion.Records(task, batch):
                        point("records")
                        counts = tables[task]["counts"]
                        for key in batch.keys:
                            counts[key] = (b"%d" % (int(counts.get(key, b"0")) + 1)).ljust(PAD)
                        point("commit")
                        outputs = {OUTPUT: list(batch.items())}
                        done = await tables.commit(batch, outputs=outputs)
                        say(
                            "commit", partition=task.partition, base=batch.base_offset,
                            next=batch.next_offset, ok=done is not None,
                        )  # fmt: skip
                    case pillion.Revoking(task, _, code):
                        say("revoking", task=task.name, code=code)
                    case pillion.Lost(task, code, message):
                        say("lost", task=task.name, code=code, message=message)
                    case pillion.Reset(task, table, code, message):
                        say("reset", task=task.name, table=table, code=code, message=message)
                    case _:
                        pass
    say("end")


if __name__ == "__main__":
    pillion.run(main)
