"""An app that reads two topics together, with all kinds of tables.

JOB_IN and JOB_SECOND are counted in one table; each record goes to JOB_OUT with what JOB_NAMES says of
its key, by partition, and JOB_PLACES of its value, everywhere.
"""

import os

from app_common import STATE, say, tell
from pillion import Context, Record, Worker

app = Worker(state_dir=STATE / "tables")
first = app.topic(os.environ["JOB_IN"], key=str, value=str)
second = app.topic(os.environ["JOB_SECOND"], key=str, value=str)
out = app.output(os.environ["JOB_OUT"], key=str, value=str)
seen = app.table("seen", key=str, value=list[str], default=list)
names = app.source_table("names", key=str, value=str, topic=os.environ["JOB_NAMES"])
places = app.global_table("places", key=str, value=str, topic=os.environ["JOB_PLACES"])
app.join(first, second)
tell(app)


@app.each(first, tables=[seen, names, places])
@app.each(second, tables=[seen, names, places])
def on_record(record: Record[str, str], ctx: Context) -> None:
    assert record.key is not None and record.value is not None
    ctx[seen][record.key].append(record.value)
    told = f"{record.value} {ctx[names].get(record.key)} {ctx[places].get(record.value)}"
    ctx.send(out, key=record.key, value=told)


if __name__ == "__main__":
    say("start")
    app.run()
    say("end")
