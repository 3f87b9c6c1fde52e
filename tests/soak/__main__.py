"""`make soak`: an hour by default; fails if memory, files or threads rise after the first half."""

from __future__ import annotations

import argparse
import sys
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.soak.run import soak


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=10, help="seconds between two looks")
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        lasting, every = timedelta(minutes=asked.minutes), timedelta(seconds=asked.every)
        soaked = soak(Path(folder) / "data", lasting, every, lambda told: print(told, flush=True))
    print("\n" + "\n".join(map(str, soaked.trends)))
    print("done: " + ", ".join(f"{count} {name}" for name, count in soaked.done.items()))
    sys.exit(1 if soaked.risen else 0)


if __name__ == "__main__":
    main()
