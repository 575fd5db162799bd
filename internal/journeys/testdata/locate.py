"""A worker that asks its sidecar all the time who holds the two partitions of its topic."""

import asyncio
import json
import sys

import pillion.client as pillion

TOPIC, ADDRESS = sys.argv[1:]


async def ask(conn: pillion.Connection, partition: int) -> None:
    before = ""
    while True:
        try:
            found = await conn.locate(set="job", partition=partition)
        except pillion.LocateError as error:
            said = {"event": "not located", "code": error.code}
        else:
            said = {
                "event": "located",
                "task": found.task,
                "active": found.active.address if found.active else "",
                "standbys": ",".join(each.address for each in found.standbys),
                "stale": found.stale,
            }
        line = json.dumps(said)
        if line != before:
            print(line, flush=True)
        before = line
        await asyncio.sleep(0.05)


async def main() -> None:
    job = pillion.Set("job", [TOPIC], ["t"])
    async with pillion.connect(sets=[job], advertise=ADDRESS) as conn:
        asking = [asyncio.create_task(ask(conn, partition)) for partition in (0, 1)]
        with pillion.Tables(conn) as tables:
            async for event in tables:
                if isinstance(event, pillion.Records):
                    await tables.commit(event)
        for each in asking:
            each.cancel()


if __name__ == "__main__":
    pillion.run(main)
