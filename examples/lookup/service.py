"""How often each key of the topic `visits` came, asked over HTTP at any worker of the group.

    GET /counts/{key}    200 {"key": ..., "count": ...}; 503 while it cannot be told: ask again
    GET /ready           200 once the tables of this worker are whole, 503 until then

The worker that owns the key's partition answers from its table. Every other one asks the owner, and
an owner that is asked so does not ask on: between two answers a partition may move.

ADDRESS (host:port) is where this worker listens and where the others reach it:

    pip install -r requirements.txt
    ADDRESS=10.0.0.7:8000 pillion run --bootstrap-servers localhost:9092 -- python service.py
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated
from urllib.parse import quote

import httpx
import uvicorn
from fastapi import FastAPI, Header
from fastapi.responses import JSONResponse
from pillion import Context, PillionError, Record, Worker

ADDRESS = os.environ.get("ADDRESS", "127.0.0.1:8000")

app = Worker("lookup", advertise=ADDRESS)
visits = app.topic("visits", key=str, value=bytes)
counts = app.table("counts", key=str, value=int, default=int)


@app.each(visits, tables=[counts])
def count(record: Record[str, bytes], ctx: Context) -> None:
    if record.key is not None:
        ctx[counts][record.key] += 1


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with http, app.running(on_failure=failed):
        yield


def failed(_: BaseException) -> None:
    """End the server, too. The error itself is raised at the end of the lifespan."""
    server.should_exit = True


host, port = ADDRESS.rsplit(":", 1)
api = FastAPI(lifespan=lifespan)
server = uvicorn.Server(uvicorn.Config(api, host, int(port)))
http = httpx.AsyncClient(timeout=2, trust_env=False)


@api.get("/counts/{key:path}")
async def get_count(key: str, handed_on: Annotated[bool, Header()] = False) -> JSONResponse:
    try:
        found = await app.locate(counts, key)
    except PillionError as error:
        return busy(str(error))
    if found.stale or found.active is None:
        return busy("the group is changing")
    if found.here:
        return JSONResponse({"key": key, "count": app.local(counts).get(key, 0)})
    if handed_on or found.active.address == ADDRESS:
        return busy(f"{found.task} is on its way to or from {ADDRESS}")
    return await ask(found.active.address, key)


async def ask(owner: str, key: str) -> JSONResponse:
    """Ask the owner of a key."""
    url = f"http://{owner}/counts/{quote(key, safe='')}"
    try:
        answer = await http.get(url, headers={"handed-on": "true"})
        return JSONResponse(answer.json(), answer.status_code)
    except (httpx.HTTPError, ValueError) as error:
        return busy(f"{owner} does not answer: {error!r}")


@api.get("/ready")
async def ready() -> JSONResponse:
    return JSONResponse({}) if app.is_ready else busy("tables are being restored")


def busy(why: str) -> JSONResponse:
    return JSONResponse({"error": why}, 503, headers={"Retry-After": "1"})


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn ends well, then raises it again
        signal.signal(number, lambda *_: sys.exit(0))
    server.run()
    sys.exit(1)  # nobody has told it to end: the worker has failed
