"""Project template of `headrace init`: settings, statements, a script that sends clicks, and a README."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headrace.errors import BadOption

STATEMENTS = """\
-- Clicks arrive here: start `python feed.py`, or see the README.
CREATE STREAM clicks (visitor BIGINT KEY, page STRING, dwell DOUBLE)
  WITH (KAFKA_TOPIC='clicks', FORMAT='JSON', PARTITIONS=2);

-- Updated on Spark exactly once, also after a crash; queried and watched by any number of clients.
CREATE TABLE page_views AS
  SELECT page, COUNT(*) AS views, AVG(dwell) AS dwell
  FROM clicks WINDOW TUMBLING (SIZE 1 SECOND, RETENTION 1 HOUR, GRACE PERIOD 10 SECONDS)
  GROUP BY page;

CREATE STREAM long_reads AS
  SELECT visitor, page, dwell FROM clicks WHERE dwell > 30;
"""

EXAMPLE_QUERIES = (
    "SELECT page, SUM(views) AS views FROM page_views GROUP BY page;",
    "SELECT * FROM page_views EMIT CHANGES;",
    "SELECT * FROM long_reads EMIT CHANGES;",
)

_FEED = '''\
"""Sends generated clicks to the server, until Ctrl-C: python feed.py [clicks per second]"""

import random
import sys
import time

from headrace.client import Client
from headrace.errors import HeadraceError

PAGES = ["/", "/search", "/cart", "/checkout", "/help"]


def random_click():
    return {"VISITOR": random.randrange(1000), "PAGE": random.choice(PAGES), "DWELL": random.expovariate(1 / 8)}


def main():
    rate = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 100
    client = Client()
    sent = 0
    try:
        while True:
            sent += client.insert("clicks", [random_click() for _ in range(rate)])
            print(f"\\r{sent:,} clicks sent", end="", flush=True)
            time.sleep(1)
    except KeyboardInterrupt:
        print(f"\\rstopped by Ctrl-C; {sent:,} clicks were sent")
        return 130
    except HeadraceError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
'''

_README = f"""\
# A click stream

```sh
HEADRACE up                            # the server: leave it running
HEADRACE sql --file clicks.ksql        # in another terminal: the statements
PYTHON feed.py                         # sends clicks
```

Enter queries at the prompt of `HEADRACE sql`:

```sql
{chr(10).join(EXAMPLE_QUERIES)}
```

`HEADRACE explain clicks.ksql` shows the query plans. All data is in the folder `data`; after a restart or a crash,
queries resume where they stopped.
"""

FILES: Mapping[str, str] = {
    "headrace.toml": '# Every setting: `headrace settings`\n[storage]\ndata = "data"\n',
    "clicks.ksql": STATEMENTS,
    "feed.py": _FEED,
    "README.md": _README,
}


def create_project(folder: Path, *, program: str = "headrace", python: str = "python") -> list[Path]:
    """Write the template's files into a new or empty folder; `program` and `python` are the commands in its README."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadOption(f"{folder} exists and is not empty", fix="choose a folder that does not exist yet")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in FILES.items():
        named = text.replace("HEADRACE", program).replace("PYTHON", python) if name == "README.md" else text
        (folder / name).write_text(named, encoding="utf-8")
    return [folder / name for name in FILES]
