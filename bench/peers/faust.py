"""Faust (faust-streaming): a count per key over clicks in Kafka, each change written as JSON.

`send` does not wait for acknowledgements. Its buffer, which the table's changelog uses too, may hold more than the
hundred messages at which Faust would pause to process them one by one.
Timed from the first processed record to the last, without the start and the joining of the group.
"""

import asyncio
import json
import logging
import os
import sys
import time

sys.path = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]  # not this file

import faust  # noqa: E402

parameters = json.loads(sys.argv[sys.argv.index("--json") + 1])
settings, folder = parameters["settings"], parameters["folder"]

application = faust.App(
    f"faust-{settings['out']}",
    broker=f"kafka://{parameters['services']['kafka']}",
    store="memory://",
    datadir=f"{folder}/faust",
    topic_partitions=settings["partitions"],
    topic_disable_leader=True,
    consumer_auto_offset_reset="earliest",
    web_enabled=False,
    stream_wait_empty=False,
    producer_linger=0.02,  # seconds
)
clicks = application.topic(settings["topic"], key_type=str, key_serializer="raw", value_serializer="json")
counts = application.topic(settings["out"], key_type=str, key_serializer="raw", value_serializer="json")
table = application.Table("counts", default=int, partitions=settings["partitions"])
first = last = 0.0
handled = 0


@application.agent(clicks)
async def count(stream: faust.Stream) -> None:
    global first, last, handled
    async for user, _ in stream.items():
        handled += 1
        if handled == 1:
            first = time.perf_counter()
        table[user] += 1
        await counts.send(key=user, value={"n": table[user]})
        last = time.perf_counter()
        if handled == settings["take"]:
            answer()


def answer() -> None:
    """Prints the outcome, and ends without a shutdown, which would only take time."""
    print(json.dumps({"records": handled, "seconds": last - first, "extra": {}}), flush=True)
    os._exit(0)


@application.task
async def patience() -> None:
    await asyncio.sleep(settings["timeout_seconds"])
    sys.stderr.write(f"of {settings['take']} records only {handled} came\n")
    os._exit(1)


logging.disable(logging.INFO)  # debug messages that are not shown take a tenth of its time
application.producer.buffer.max_messages = 10_000
faust.Worker(application, loglevel="WARN", redirect_stdouts=False).execute_from_commandline()
