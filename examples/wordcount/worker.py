"""Count words: topic `words` in, table `counts` kept, topic `word-counts` out."""

from pillion import Batch, Context, Worker

app = Worker(group="words")
words = app.topic("words", key=str, value=str)
counts = app.table("counts", key=str, value=int, default=int)
changes = app.output("word-counts", key=str, value=int)


@app.process(words, tables=[counts])
def count(batch: Batch[str, str], ctx: Context) -> None:
    for line in batch.values:
        for word in (line or "").split():
            ctx[counts][word] += 1
            ctx.send(changes, key=word, value=ctx[counts][word])


if __name__ == "__main__":
    app.run()
