"""A worker that restores a table in memory, and stops reading at its first rows.

It stops its whole process (SIGSTOP), so that nobody reads its socket either; the test lets it go on.
"""

import json
import os
import signal

import pillion.client as pillion

SOURCE = os.environ["JOB_IN"]


def say(event: str, **fields: object) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


async def main() -> None:
    size = records = tasks = 0
    stopped = False
    async with pillion.connect(sets=[pillion.Set("job", [SOURCE], ["counts"])]) as conn:
        with pillion.Tables(conn) as tables:
            async for event in tables:
                match event:
                    case pillion.Restore(_, batch):
                        if not stopped:
                            stopped = True
                            say("stops")
                            os.kill(os.getpid(), signal.SIGSTOP)
                        records += len(batch)
                        size += sum(map(len, batch.keys)) + sum(map(len, batch.values))  # type: ignore[arg-type]
                    case pillion.Restored():
                        tasks += 1
                        say("restored", tasks=tasks, records=records, bytes=size)
                    case _:
                        pass


if __name__ == "__main__":
    pillion.run(main)
