"""Attacks on the statements of a server."""

from __future__ import annotations

import pytest

from tests.attack.server import AttackedServer


@pytest.mark.attack("5,001 statements in one request", "the request is refused, none is applied")
def test_a_flood_of_statements_in_one_request_is_refused(shared_attacked: AttackedServer) -> None:
    flood = "".join(
        f"CREATE STREAM s{n} (a INT) WITH (KAFKA_TOPIC='s{n}', FORMAT='JSON', PARTITIONS=1);" for n in range(5_001)
    )
    answer = shared_attacked.execute(flood)
    assert (answer.status, answer.code) == (400, "too-many-statements")
    assert b'"S0"' not in shared_attacked.execute("LIST STREAMS;").body
