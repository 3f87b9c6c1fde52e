"""Stores a key group's state buckets in Spark's MapState.

Spark's client sends one request and waits for its response, and spends most of its own time on converting values that
need no conversion: a bucket is bytes, its address a string and a number. `StateConnection` speaks the same protocol on
the same connection, but pipelines requests. The protocol is internal to Spark, so this is done only with versions of
Spark for which it was tested; with any other version Spark's client is used, at its own speed.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from struct import Struct
from typing import Any

import pyspark
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.proto import StateMessage_pb2 as messages
from pyspark.sql.streaming.stateful_processor import MapState

from headrace.engine.spark.state_storage import Address, Change

KEY_SCHEMA = "store string, bucket int"
VALUE_SCHEMA = "data binary"

TESTED_SPARK_VERSIONS = ("4.2.",)
"""Versions of Spark whose protocol `StateConnection` speaks."""

_MAX_IN_FLIGHT = 64
_MAX_IN_FLIGHT_BYTES = 48 << 10
"""Limits of the requests in flight.

They fit in the socket's buffers, so that neither side ever waits for the other to read before it reads itself, even
when Spark has failed and reads no more.
"""

_HEADER = Struct(">ii")
_LENGTH = Struct(">i")


class MapStateStorage:
    """A key group's buckets; the key group is the operator's key."""

    def __init__(self, state: MapState) -> None:
        storage_class = (
            PipelinedStateStorage if pyspark.__version__.startswith(TESTED_SPARK_VERSIONS) else ClientStateStorage
        )
        self._storage = storage_class(state)

    def read(self, addresses: Sequence[Address]) -> list[bytes | None]:
        return self._storage.read(addresses)

    def write(self, changes: Iterable[Change]) -> None:
        self._storage.write(changes)


class ClientStateStorage:
    """Uses Spark's client, one request at a time."""

    def __init__(self, state: MapState) -> None:
        self._map = state

    def read(self, addresses: Sequence[Address]) -> list[bytes | None]:
        entries = map(self._map.getValue, addresses)
        return [None if value is None else bytes(value[0]) for value in entries]

    def write(self, changes: Iterable[Change]) -> None:
        for address, data in changes:
            if data is None:
                self._map.removeKey(address)
            else:
                self._map.updateValue(address, (data,))


class PipelinedStateStorage:
    """Uses the client's own connection, with many requests in flight."""

    def __init__(self, state: MapState) -> None:
        self._connection = StateConnection(state._mapStateClient._stateful_processor_api_client.sockfile)
        self._name = state._stateName

    def read(self, addresses: Sequence[Address]) -> list[bytes | None]:
        values: list[bytes | None] = []
        self._connection.exchange(map(self._get, addresses), lambda value: values.append(_bytes(value)))
        return values

    def write(self, changes: Iterable[Change]) -> None:
        self._connection.exchange((self._put(*change) for change in changes), lambda value: None)

    def _get(self, address: Address) -> bytes:
        return self._request(getValue=messages.GetValue(userKey=_pickled(address)))

    def _put(self, address: Address, data: bytes | None) -> bytes:
        key = _pickled(address)
        if data is None:
            return self._request(removeKey=messages.RemoveKey(userKey=key))
        return self._request(updateValue=messages.UpdateValue(userKey=key, value=_pickled((data,))))

    def _request(self, **call: Any) -> bytes:
        about = messages.MapStateCall(stateName=self._name, **call)
        variable = messages.StateVariableRequest(mapStateCall=about)
        return messages.StateRequest(stateVariableRequest=variable).SerializeToString()


class StateConnection:
    """Requests and responses, in the same order."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._in_flight: deque[int] = deque()

    def exchange(self, requests: Iterable[bytes], take: Callable[[bytes], object]) -> None:
        """Sends all requests, and passes each response to `take`. Leaves no response unread for the next call."""
        try:
            for request in requests:
                if self._is_full(len(request)):
                    self._receive(take, leave=len(self._in_flight) // 2, room=len(request))
                self._file.write(_HEADER.pack(0, len(request)))
                self._file.write(request)
                self._in_flight.append(len(request))
        except BaseException:
            self._receive(lambda value: None)
            raise
        self._receive(take)

    def _is_full(self, more: int) -> bool:
        return len(self._in_flight) >= _MAX_IN_FLIGHT or sum(self._in_flight) + more > _MAX_IN_FLIGHT_BYTES

    def _receive(self, take: Callable[[bytes], object], leave: int = 0, room: int = 0) -> None:
        self._file.flush()
        while len(self._in_flight) > leave or (self._in_flight and self._is_full(room)):
            self._in_flight.popleft()
            take(self._read_response())

    def _read_response(self) -> bytes:
        response = messages.StateResponse()
        response.ParseFromString(self._file.read(_LENGTH.unpack(self._file.read(4))[0]))
        if response.statusCode != 0:
            self._in_flight.clear()  # Spark closes the state after an error: no more responses follow
            raise PySparkRuntimeError(f"a bucket of the state could not be read: {response.errorMessage}")
        return response.value


# -- rows as Spark's state server pickles them ----------------------------------------------------------------------


def _pickled(row: tuple[Any, ...]) -> bytes:
    return pickle.dumps(row, 4)


class _Rows(pickle.Unpickler):
    """Reads a row without parsing its schema each time."""

    def find_class(self, module: str, name: str) -> Any:
        return _PLAIN.get((module, name)) or super().find_class(module, name)


def _values(schema: object) -> Callable[..., tuple[Any, ...]]:
    del schema
    return lambda *values: values


_PLAIN: dict[tuple[str, str], Callable[..., Any]] = {
    ("pyspark.sql.types", "_parse_datatype_json_string"): str,
    ("pyspark.sql.types", "_create_row_inbound_converter"): _values,
}


def _bytes(row: bytes) -> bytes | None:
    return bytes(_Rows(BytesIO(row)).load()[0]) if row else None
