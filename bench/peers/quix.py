"""Quix Streams: a count per key over clicks in Kafka, each change written as JSON.

Exactly-once is off, which is faster. Timed from the first processed record to the last, without the start and
the joining of the group.
"""

import json
import sys
import time

from quixstreams import Application
from quixstreams.state import State

parameters = json.loads(sys.argv[sys.argv.index("--json") + 1])
settings, folder = parameters["settings"], parameters["folder"]

application = Application(
    broker_address=parameters["services"]["kafka"],
    consumer_group=f"quix-{settings['out']}",
    auto_offset_reset="earliest",
    state_dir=f"{folder}/state",
    processing_guarantee="at-least-once",
    loglevel="WARNING",
    use_changelog_topics=False,
)
clicks = application.topic(settings["topic"], key_deserializer="string", value_deserializer="json")
counts = application.topic(settings["out"], key_serializer="string", value_serializer="json")
first = last = 0.0
handled = 0


def count(click: dict, state: State) -> dict:
    global first, last, handled
    handled += 1
    if handled == 1:
        first = time.perf_counter()
    number = state.get("n", 0) + 1
    state.set("n", number)
    last = time.perf_counter()
    return {"n": number}


rows = application.dataframe(clicks)
rows.apply(count, stateful=True).to_topic(counts)
application.run(count=settings["take"], timeout=settings["timeout_seconds"])
print(json.dumps({"records": handled, "seconds": last - first, "extra": {}}))
