"""Print every row of the SQLite files below a directory, and each file's checkpoint."""

import json
import sqlite3
import sys
from pathlib import Path

for path in sorted(Path(sys.argv[1]).rglob("*.sqlite")):
    db = sqlite3.connect(path)
    if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        continue  # its process ended before it had made the tables
    meta = dict(db.execute("SELECT name, value FROM meta").fetchall())
    table, topic = meta["identity"].split(" ")
    rows = {
        key.decode("latin-1"): value.decode("latin-1")
        for key, value in db.execute("SELECT k, v FROM rows")
    }
    topic, partition = topic.rsplit("/", 1)
    file = {"path": str(path), "table": table, "topic": topic, "partition": int(partition)}
    print(json.dumps({**file, "checkpoint": meta.get("checkpoint") or "", "rows": rows}))
