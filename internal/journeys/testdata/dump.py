"""Print every row of the SQLite files below a directory, and each file's checkpoint."""

import json
import sqlite3
import sys
from pathlib import Path

for path in sorted(Path(sys.argv[1]).rglob("*.sqlite")):
    db = sqlite3.connect(path)
    found = db.execute("SELECT value FROM meta WHERE name = 'checkpoint'").fetchone()
    checkpoint = found[0] if found and found[0] else ""
    (identity,) = db.execute("SELECT value FROM meta WHERE name = 'identity'").fetchone()
    table, topic = identity.split(" ")
    partition = int(topic.rsplit("/", 1)[1])
    file = {"path": str(path), "table": table, "partition": partition, "checkpoint": checkpoint}
    print(json.dumps({"event": "file", **file}))
    for key, value in db.execute("SELECT k, v FROM rows ORDER BY k"):
        print(json.dumps({"event": "row", "key": key.decode("latin-1"), "value": value.decode("latin-1")}))
