"""The worker of a rolling deploy: it counts the records of each key in every table that it has.

JOB_SOURCES, JOB_TABLES: what this version declares, separated by commas. JOB_VERSION: its name.
JOB_OUT: a topic that gets one record for each input. JOB_STATE: a directory, with the tables.
"""

import json
import os
import time
from pathlib import Path

import pillion.client as pillion

SOURCES = os.environ["JOB_SOURCES"].split(",")
TABLES = os.environ["JOB_TABLES"].split(",")
VERSION = os.environ["JOB_VERSION"]
OUTPUT = os.environ["JOB_OUT"]
STATE = Path(os.environ["JOB_STATE"])
WINDOW = int(os.environ["JOB_WINDOW"])


def say(event: str, **fields: object) -> None:
    line = {"event": event, "pid": os.getpid(), "at": time.time(), "version": VERSION, **fields}
    print(json.dumps(line), flush=True)


def task_said(event: str, task: pillion.Task, **fields: object) -> None:
    say(event, task=task.name, partition=task.partition, epoch=task.epoch, role=task.role, **fields)


async def main() -> None:
    say("start")
    job = pillion.Set("job", SOURCES, TABLES)
    async with pillion.connect(sets=[job], outputs=[OUTPUT], window=WINDOW) as conn:
        with pillion.Tables(conn, pillion.SqliteStores(STATE / "tables")) as tables:
            async for event in tables:
                match event:
                    case pillion.Assigned(task):
                        task_said("assigned", task)
                    case pillion.Restored(task):
                        task_said("active", task)
                    case pillion.Promoted(task, _):
                        task_said("active", task)
                    case pillion.Demoted(task, _):
                        task_said("demoted", task)
                    case pillion.Records(task, batch):
                        mine = tables[task]
                        for name in TABLES:
                            for key in batch.keys:
                                mine[name][key] = b"%d" % (int(mine[name].get(key, b"0")) + 1)
                        done = await tables.commit(batch, outputs={OUTPUT: list(batch.items())})
                        task_said(
                            "commit", task, topic=batch.topic, base=batch.base_offset,
                            next=batch.next_offset, ok=done is not None,
                        )  # fmt: skip
                    case pillion.Revoking(task, _, code):
                        task_said("revoking", task, code=code)
                    case pillion.Lost(task, code, message):
                        task_said("lost", task, code=code, message=message)
                    case pillion.Reset(task, table, code, message):
                        task_said("reset", task, table=table, code=code, message=message)
                    case _:
                        pass
    say("end")


if __name__ == "__main__":
    pillion.run(main)
