"""What Spark starts instead of Python: asks the fork server for a process, and stays as long as that.

A copy of this file is written for each fork server, with its own `PYTHON, ADDRESS`. It imports little, because it runs
for every Python process that Spark starts.
"""

import marshal
import os
import socket
import sys

PYTHON, ADDRESS = "", ""
SECONDS = 10.0  # for the first answer


def main() -> None:
    if sys.argv[1:2] == ["-m"]:
        try:
            code = run()
        except OSError:  # there is no fork server any more
            code = None
        if code is not None:
            os._exit(code)
    os.execv(PYTHON, [PYTHON, *sys.argv[1:]])


def run() -> "int | None":
    """The exit code of the process; None if the fork server starts none."""
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(SECONDS)
        wire.connect(ADDRESS)
        data = marshal.dumps((sys.argv[1:], dict(os.environb), os.getcwdb())) + b"\0END"
        sent = socket.send_fds(wire, [data], [0, 1, 2])
        wire.sendall(data[sent:])
        if wire.recv(1) != b"+":
            return None
        for file in (0, 1):  # the process has them; it must see when Spark closes them, and Spark when it does
            os.close(file)
        wire.settimeout(None)
        code = wire.recv(1)
        return code[0] if code else 1


if __name__ == "__main__":
    main()
