"""Run a command on a terminal of its own; what it shows there comes to stdout, a line per drawing."""

import os
import pty
import sys


def read(fd: int) -> bytes:
    return os.read(fd, 4096).replace(b"\r\n", b"\n").replace(b"\r", b"\n")


if __name__ == "__main__":
    sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:], read)))
