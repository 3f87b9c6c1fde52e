"""Code from elsewhere is executed in a process of its own first: what never ends, or takes its process down, must not
do that to a server. What it raises is not told here: the server's own execution says that, and where.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from headrace.errors import BadPython
from headrace.lang.python.loading import Code

PATIENCE = 60.0  # seconds
_EXECUTE = (
    "import sys; from headrace.lang.python.loading import Code, execute; execute(Code(sys.stdin.read(), sys.argv[1]))"
)


def probe(code: Code) -> None:
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _EXECUTE, code.path],
            input=code.source.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BadPython(
            f"it has not come to its end after {PATIENCE:g} s",
            where=code.path,
            fix='keep what goes on under `if __name__ == "__main__":`',
        ) from None
    if done.returncode < 0:
        raise BadPython(f"it ends its process by {signal.Signals(-done.returncode).name}", where=code.path)
