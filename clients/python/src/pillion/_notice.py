"""What the client tells a human: one sentence on stderr, or in the log that the program set up."""

from __future__ import annotations

import logging
import sys

logger = logging.getLogger("pillion")


def notice(sentence: str) -> None:
    """Say one sentence. Never raises."""
    if logger.hasHandlers():
        logger.warning("%s", sentence)
    else:
        print(f"pillion: {sentence}", file=sys.stderr, flush=True)  # noqa: T201
