"""An app that does nothing but what @app.every calls: it counts, and writes each count to JOB_OUT."""

import os

from app_common import STATE, say, tell
from pillion import Context, Record, Worker

app = Worker(state_dir=STATE / "tables")
source = app.topic(os.environ["JOB_IN"], key=str, value=str)
ticks = app.output(os.environ["JOB_OUT"], key=str, value=int)
counts = app.table("counts", key=str, value=int, default=int)
tell(app)


@app.each(source, tables=[counts])
def on_record(record: Record[str, str], ctx: Context) -> None:
    pass


@app.every(seconds=0.05)
async def tick(ctx: Context) -> None:
    rows = ctx[counts]
    rows["ticks"] += 1
    ctx.send(ticks, key=f"partition {ctx.partition}", value=rows["ticks"])


if __name__ == "__main__":
    say("start")
    app.run()
    say("end")
