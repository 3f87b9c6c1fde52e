"""Distances on the globe."""

from __future__ import annotations

from math import asin, cos, pi, sin, sqrt

from headrace.plan.functions.declaration import Function, NullRule, Overload

_KILOMETRES, _MILES = 6371.0, 3959.0
RADIUS: dict[str, float] = {
    **dict.fromkeys(("KM", "KILOMETER", "KILOMETERS", "KILOMETRE", "KILOMETRES"), _KILOMETRES),
    **dict.fromkeys(("MI", "MILE", "MILES"), _MILES),
}
"""The mean radius of the earth, by unit."""


def _radians(degrees: float) -> float:
    """Keeps this order of operations: `math.radians` differs in the last digit, and so would the distances."""
    return degrees / 180.0 * pi


def distance(
    lat1: float | None, lon1: float | None, lat2: float | None, lon2: float | None, unit: str | None = None
) -> float | None:
    """The great-circle distance by the haversine formula."""
    if lat1 is None or lon1 is None or lat2 is None or lon2 is None:
        return None
    for name, degrees, limit in (
        ("latitude", lat1, 90), ("latitude", lat2, 90), ("longitude", lon1, 180), ("longitude", lon2, 180)
    ):  # fmt: skip
        if not -limit <= degrees <= limit:
            raise ValueError(f"{name} {degrees} is not between -{limit} and {limit}")
    radius = RADIUS.get((unit or "KM").upper())
    if radius is None:
        raise ValueError(f'unit "{unit}" is none of KM, MI')
    half_lat, half_lon = _radians(lat2 - lat1) / 2, _radians(lon2 - lon1) / 2
    square = sin(half_lat) ** 2 + sin(half_lon) ** 2 * cos(_radians(lat1)) * cos(_radians(lat2))
    return radius * (2 * asin(min(1.0, sqrt(square))))


FUNCTIONS = (
    Function(
        "GEO_DISTANCE",
        "The great-circle distance between two points in degrees, in KM or MI.",
        (
            Overload("(lat1: double, lon1: double, lat2: double, lon2: double) -> double", distance),
            Overload(
                "(lat1: double, lon1: double, lat2: double, lon2: double, unit: string) -> double",
                distance,
                NullRule.PASS,
            ),
        ),
        ("GEO_DISTANCE(10, 20, 10, 20)", "0.0"),
        area="geo",
    ),
)
