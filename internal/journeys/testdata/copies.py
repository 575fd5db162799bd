"""Copy every record to the output, and into a table; say exactly what came.

Uses the connection itself, without Tables: all of what a record is goes through.
"""

import json
import os

import pillion.client as pillion

SOURCE = os.environ["JOB_IN"]
OUTPUT = os.environ["JOB_OUT"]


def text(value: bytes | None) -> str | None:
    """Short values as they are, in hex; long ones by their length."""
    if value is None:
        return None
    return value.hex() if len(value) <= 64 else f"{len(value)} bytes"


def say(event: str, **fields: object) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


def tell(event: str, batch: pillion.Batch) -> None:
    for i, row in enumerate(batch.rows()):
        headers = [[name, text(value)] for name, value in batch.headers(i)]
        say(
            event, partition=batch.task.partition, offset=row.offset, key=text(row.key),
            value=text(row.value), timestamp=row.timestamp, headers=headers,
            append=batch.log_append_time,
        )  # fmt: skip


async def main() -> None:
    say("start", pid=os.getpid())
    sets = [pillion.Set("copies", [SOURCE], ["copy"])]
    async with pillion.connect(sets=sets, outputs=[OUTPUT]) as conn:
        async for event in conn:
            match event:
                case pillion.Assigned(task):
                    conn.opened(task, {"copy": None})
                case pillion.Restore(task, batch):
                    tell("restored record", batch)
                case pillion.Restored(task):
                    say("whole", task=task.name)
                    conn.ready(task)
                case pillion.Records(task, batch):
                    tell("record", batch)
                    copies = [
                        pillion.Record(row.key, row.value, batch.headers(i), row.timestamp)
                        for i, row in enumerate(batch.rows())
                    ]
                    rows = [(row.key, row.value) for row in batch.rows() if row.key is not None]
                    changelog = {"copy": rows} if rows else {}
                    await conn.commit(batch, changelog=changelog, outputs={OUTPUT: copies})
                case pillion.Revoking(task, _, _):
                    conn.release(task)
                case _:
                    pass


if __name__ == "__main__":
    pillion.run(main)
