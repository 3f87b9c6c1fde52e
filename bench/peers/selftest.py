"""A peer in its own environment, which implements the protocol without importing headrace."""

import hashlib
import json
import sys
import time

settings = json.loads(sys.argv[sys.argv.index("--json") + 1])["settings"]
block, count = bytes(settings["block_bytes"]), settings["records"]
start = time.perf_counter()
for _ in range(count):
    hashlib.sha1(block).digest()
seconds = time.perf_counter() - start
extra = {"own_environment": float(sys.prefix != sys.base_prefix)}
print(json.dumps({"records": count, "seconds": seconds, "latencies": [], "extra": extra}))
