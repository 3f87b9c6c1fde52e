"""One run of a side that is a function: `python -m bench.side <table> <case> <side> --json {...}`.

Prints one line of JSON, the outcome. The harness starts it; start it by hand for profiling.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from bench.harness.case import Work
from bench.tables import table


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.side")
    for name in ("table", "case", "side"):
        parser.add_argument(name)
    parser.add_argument("--json", required=True, help="settings, folder and services")
    options = parser.parse_args()
    parameters = json.loads(options.json)
    run = table(options.table).case(options.case).sides[options.side].run
    if run is None:
        sys.exit(f"side {options.side} is a script: start it by itself")
    outcome = run(Work(parameters["settings"], Path(parameters["folder"]), parameters["services"]))
    print(json.dumps(outcome.as_dict()), flush=True)


if __name__ == "__main__":
    main()
