"""Older KSQL syntax runs unchanged: without EMIT CHANGES, with KEY in WITH."""

from __future__ import annotations

import orjson

from headrace.testing import World

STATEMENTS = """
CREATE STREAM pageviews (viewtime BIGINT, userid VARCHAR, pageid VARCHAR) WITH (KAFKA_TOPIC='pageviews_topic', VALUE_FORMAT='JSON');
CREATE TABLE users (registertime BIGINT, gender VARCHAR, regionid VARCHAR, userid VARCHAR, address STRUCT<street VARCHAR, zip INTEGER>) WITH (KAFKA_TOPIC='user_topic', VALUE_FORMAT='JSON', KEY='userid');
CREATE STREAM enrichedpageviews AS SELECT * FROM pageviews LEFT JOIN users ON pageviews.userid = users.userid WHERE regionid = 'region 10';
CREATE TABLE userviewcount AS SELECT userid, count(*) FROM pageviews WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY userid;
"""  # noqa: E501
HOUR = 3_600_000


def view(world: World, user: str, at: int) -> None:
    world.produce(
        "pageviews_topic", key=None, value=orjson.dumps({"viewtime": at, "userid": user, "pageid": "p"}), timestamp=at
    )


def test_statements_in_older_syntax_run_unchanged() -> None:
    world = World()
    world.execute(STATEMENTS)
    for user, region in (("ann", "region 10"), ("bob", "region 11")):
        row = {"registertime": 1, "gender": "F", "regionid": region, "address": {"street": "s", "zip": 7}}
        world.produce("user_topic", key=user.encode(), value=orjson.dumps(row), timestamp=0)
    for user, at in (("ann", 10), ("bob", 20), ("ann", 30), ("ann", HOUR + 1)):
        view(world, user, at)
    enriched = [(r.key, orjson.loads(r.value or b"")) for r in world.topics["ENRICHEDPAGEVIEWS"]]
    assert [(key, row["PAGEVIEWS_VIEWTIME"]) for key, row in enriched] == [
        (b"ann", 10),
        (b"ann", 30),
        (b"ann", HOUR + 1),
    ]
    assert enriched[0][1]["USERS_ADDRESS"] == {"STREET": "s", "ZIP": 7}
    counts = [(r.key, orjson.loads(r.value or b"")) for r in world.topics["USERVIEWCOUNT"]]
    window = (0).to_bytes(8, "big"), HOUR.to_bytes(8, "big")
    assert counts == [
        (b"ann" + window[0], {"KSQL_COL_0": 1}),
        (b"bob" + window[0], {"KSQL_COL_0": 1}),
        (b"ann" + window[0], {"KSQL_COL_0": 2}),
        (b"ann" + window[1], {"KSQL_COL_0": 1}),
    ]
