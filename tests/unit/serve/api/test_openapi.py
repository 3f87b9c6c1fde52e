"""The OpenAPI description is complete and agrees with the routes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from headrace.serve.api.app import ROUTES
from tests.unit.serve.api.conftest import Client


def walked(value: Any) -> Iterator[tuple[str, Any]]:
    for name, one in value.items() if isinstance(value, dict) else enumerate(value):
        yield str(name), one
        if isinstance(one, dict | list):
            yield from walked(one)


def test_the_description_covers_every_route(ask: Client) -> None:
    told = ask.done("GET", "/openapi.json")
    operations = [one for path in told["paths"].values() for one in path.values()]
    assert len(operations) == len(ROUTES)
    assert len({one["operationId"] for one in operations}) == len(operations)
    assert all(one["summary"].endswith(".") for one in operations)
    schemas = told["components"]["schemas"]
    for name, reference in walked(told):
        if name == "$ref":
            assert reference.removeprefix("#/components/schemas/") in schemas
    for path, methods in told["paths"].items():
        for operation in methods.values():
            named = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))


def test_the_openapi_document_describes_parameters_and_responses(ask: Client) -> None:
    told = ask.done("GET", "/openapi.json")
    read = told["paths"]["/topics/{topic}/records"]["get"]
    limit = next(one for one in read["parameters"] if one["name"] == "limit")
    assert limit["schema"] == {"type": "integer", "default": 100, "minimum": 1, "maximum": 10_000}
    assert list(read["responses"]["200"]["content"]) == ["application/json", "application/vnd.apache.arrow.stream"]
    produced = told["paths"]["/topics/{topic}/records"]["post"]
    assert produced["responses"]["201"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/records.ProduceResponse"
    }
    new = told["paths"]["/topics"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert (new["required"], new["additionalProperties"]) == (["name"], False)
