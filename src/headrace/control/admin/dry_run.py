"""Executes an app's code in a subprocess first, so that code that hangs or kills its process cannot harm the server.

The subprocess has full rights: it is no sandbox. Exceptions are ignored here, as the server's own execution reports
them, with their position.
"""

from __future__ import annotations

import signal
import subprocess
import sys

from headrace.errors import BadPython
from headrace.import_path import child_environment
from headrace.lang.python.app_code import AppCode

TIMEOUT_SECONDS = 60.0  # seconds
_EXECUTE = (
    "import sys; from headrace.lang.python.app_code import AppCode, execute; "
    "execute(AppCode(sys.stdin.read(), sys.argv[1]))"
)


def dry_run(code: AppCode) -> None:
    try:
        done = subprocess.run(
            [sys.executable, "-c", _EXECUTE, code.path],
            input=code.source.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=child_environment(),
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BadPython(
            f"the file did not finish within {TIMEOUT_SECONDS:g} s",
            where=code.path,
            fix='move long-running code under `if __name__ == "__main__":`',
        ) from None
    if done.returncode < 0:
        raise BadPython(f"the file ended its process by {signal.Signals(-done.returncode).name}", where=code.path)
