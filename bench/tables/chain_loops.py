"""What a person would write for each query of table `chain`: one loop, nothing but this query in it.

The loops give the same entries as the chain, nulls and late rows included.
"""

from __future__ import annotations

from bench.harness.case import Work
from bench.tables.chain_rows import LEAST, WINDOW_MS, Batch, Process, users


def filter(work: Work) -> Process:
    del work

    def process(batch: Batch) -> Batch:
        out = []
        for time, key, row in batch:
            if row is not None:
                item, amount = row
                if amount is not None and amount > LEAST:
                    out.append((time, key, (item, amount * 2)))
        return out

    return process


def keyed_count(work: Work) -> Process:
    del work
    counts: dict[str, tuple[int, int]] = {}

    def process(batch: Batch) -> Batch:
        out = []
        for time, key, row in batch:
            if row is not None and key is not None:
                latest, count = counts.get(key, (time, 0))
                latest, count = max(latest, time), count + 1
                counts[key] = latest, count
                out.append((latest, key, (count,), None))
        return out

    return process


def windowed_count(work: Work) -> Process:
    del work
    windows: dict[tuple[str, int], tuple[int, int]] = {}
    now = 0

    def process(batch: Batch) -> Batch:
        nonlocal now
        out = []
        for time, key, row in batch:
            if row is not None and key is not None:
                now = max(now, time)
                start = time // WINDOW_MS * WINDOW_MS
                if start + WINDOW_MS > now:
                    latest, count = windows.get((key, start), (time, 0))
                    latest, count = max(latest, time), count + 1
                    windows[key, start] = latest, count
                    out.append((latest, (*key, (start, start + WINDOW_MS)), (count,), None))
        for place in [place for place in windows if place[1] + WINDOW_MS <= now]:
            del windows[place]
        return out

    return process


def stream_table_join(work: Work) -> Process:
    table = {key: row for _, key, row in users(work)}

    def process(batch: Batch) -> Batch:
        out = []
        for time, key, row in batch:
            if row is not None and key is not None:
                match = table.get(key)
                if match is not None:
                    out.append((time, key, row + match))
        return out

    return process
