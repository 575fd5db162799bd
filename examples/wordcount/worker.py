"""Count words: topic `words` in, table `counts` kept, topic `word-counts` out.

Each partition counts its own lines: those of one key are counted together.
"""

import pillion.client as pillion


async def main() -> None:
    words = pillion.Set("words", sources=["words"], tables=["counts"])
    async with pillion.connect(sets=[words], outputs=["word-counts"]) as conn:
        with pillion.Tables(conn, pillion.SqliteStores("state")) as tables:
            async for event in tables:
                match event:
                    case pillion.Records(task, batch):
                        counts = tables[task]["counts"]
                        changed: dict[bytes, bytes] = {}
                        for line in batch.values:
                            for word in (line or b"").split():
                                count = int(counts.get(word, b"0")) + 1
                                counts[word] = changed[word] = b"%d" % count
                        await tables.commit(batch, outputs={"word-counts": changed.items()})
                    case pillion.Assigned(task) | pillion.Lost(task) | pillion.Revoking(task):
                        print(type(event).__name__.lower(), task.name, flush=True)
                    case _:
                        pass


if __name__ == "__main__":
    pillion.run(main)
