"""A worker that makes the mistake that its test asks for, and is a good one otherwise.

DECLARE: its sources, tables and outputs, in JSON. MISTAKE: what it commits, or says, wrongly.
stdout tells where it is; stderr has what a user would read, and nothing else.
"""

import json
import os

import pillion.client as pillion
from pillion import _connection

DECLARE = json.loads(os.environ["DECLARE"])
MISTAKE = os.environ["MISTAKE"]
MAX_FRAME = int(os.environ["MAX_FRAME"] or 128 << 20)


def say(event: str) -> None:
    print(json.dumps({"event": event}), flush=True)


async def main() -> None:
    say("start")
    if MISTAKE == "version":  # a client of a time before this protocol
        _connection.VERSION = 0
    words = pillion.Set("words", DECLARE["sources"], DECLARE["tables"])
    outputs = DECLARE["outputs"]
    async with pillion.connect(sets=[words], outputs=outputs, max_frame=MAX_FRAME) as conn:
        say("connected")
        with pillion.Tables(conn) as tables:
            async for event in tables:
                say(type(event).__name__.lower())
                match event:
                    case pillion.Records(task, batch):
                        if MISTAKE == "null key":
                            await conn.commit(batch, changelog={"counts": [(None, b"1")]})  # type: ignore[list-item]
                        if MISTAKE == "no bytes":
                            tables[task]["counts"]["key"] = b"1"  # type: ignore[index]
                        if MISTAKE == "undeclared output":
                            await tables.commit(batch, outputs={"elsewhere": [(b"key", b"1")]})
                        size = 2_000_000 if MISTAKE == "large row" else 2
                        tables[task]["counts"][b"key"] = bytes(size)
                        out = {name: [(b"key", bytes(2000))] for name in outputs}
                        await tables.commit(batch, outputs=out)
                        say("committed")
                    case _:
                        pass


if __name__ == "__main__":
    pillion.run(main)
