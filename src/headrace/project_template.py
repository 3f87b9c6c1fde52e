"""Project template of `headrace init`: settings, statements, a script that sends clicks, and a README."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headrace.errors import BadOption

STATEMENTS = """\
-- Clicks come in: run `python feed.py`, or see the README.
CREATE STREAM clicks (visitor BIGINT KEY, page STRING, dwell DOUBLE)
  WITH (KAFKA_TOPIC='clicks', FORMAT='JSON', PARTITIONS=2);

-- Kept up to date on Spark, exactly once, whatever is killed; asked and watched by anybody.
CREATE TABLE page_views AS
  SELECT page, COUNT(*) AS views, AVG(dwell) AS dwell
  FROM clicks WINDOW TUMBLING (SIZE 1 MINUTE)
  GROUP BY page;

CREATE STREAM long_reads AS
  SELECT visitor, page, dwell FROM clicks WHERE dwell > 30;
"""

EXAMPLE_QUERIES = (
    "SELECT page, views FROM page_views ORDER BY views DESC LIMIT 3;",
    "SELECT * FROM page_views EMIT CHANGES;",
    "SELECT * FROM long_reads EMIT CHANGES;",
)

_FEED = '''\
"""Sends generated clicks to the server, until Ctrl-C: python feed.py [clicks per second]"""

import random
import sys
import time

from headrace.client import Client

PAGES = ["/", "/search", "/cart", "/checkout", "/help"]
rate = int(sys.argv[1]) if len(sys.argv) > 1 else 100
client = Client()
sent = 0
while True:
    rows = [
        {"VISITOR": random.randrange(1000), "PAGE": random.choice(PAGES), "DWELL": random.expovariate(1 / 8)}
        for _ in range(rate)
    ]
    sent += client.insert("clicks", rows)
    print(f"{sent} clicks sent", end="\\r", flush=True)
    time.sleep(1)
'''

_README = f"""\
# A click stream

```sh
headrace up                            # the server: leave it running
headrace sql --file clicks.ksql        # in another terminal: what is to be computed
python feed.py                         # and something that clicks
```

Then ask, at the prompt of `headrace sql`:

```sql
{chr(10).join(EXAMPLE_QUERIES)}
```

`headrace explain clicks.ksql` shows what Spark will do. Everything lies in the folder `data`; what is stopped, or
killed, goes on where it was.
"""

FILES: Mapping[str, str] = {
    "headrace.toml": '# Every setting: `headrace settings`\n[storage]\ndata = "data"\n',
    "clicks.ksql": STATEMENTS,
    "feed.py": _FEED,
    "README.md": _README,
}


def create_project(folder: Path) -> list[Path]:
    """Write the template's files into a new or empty folder."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadOption(f"{folder} exists and is not empty", fix="choose a folder that does not exist yet")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in FILES]
