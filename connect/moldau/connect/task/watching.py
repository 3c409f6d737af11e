"""Makes a connector's converters and transforms for a command that only shows records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from moldau.client import TimestampType
from moldau.connect.api import SinkRecord, Struct
from moldau.connect.errors import ConnectError
from moldau.connect.installed.plugins import catalogue, resolved
from moldau.connect.plugins import transformation_stages
from moldau.connect.task.chain import Chain
from moldau.connect.task.messages import as_json
from moldau.connect.task.parts import converters
from moldau.connect.task.settings import ErrorSettings
from moldau.connect.task.tolerance import Tolerance, told
from moldau.connect.transforms.python import allowed_modules


class _NoWaiting:
    def now_ms(self) -> int:
        return 0

    def wait_ms(self, ms: int) -> bool:
        return False


def watching_chain(config: Mapping[str, str], worker: Mapping[str, str]) -> Chain:
    """Return a chain that raises each error at once. `worker` has the config providers, and the
    converters for a connector without its own."""
    props, _ = resolved(config, worker)
    worker, _ = resolved(worker, worker)
    plugins = catalogue()
    tolerance = Tolerance(ErrorSettings(), _NoWaiting(), [])
    with allowed_modules(worker):
        stages = transformation_stages(plugins, props)
    return Chain(converters(plugins, props, worker), stages, tolerance)


def line_of(chain: Chain, topic: str, partition: int, raw: Any) -> str:
    """Return a record as JSON, or the error if it cannot be converted."""
    where = {"topic": topic, "partition": partition, "offset": raw.offset}
    try:
        record = chain.sink_record(topic, partition, raw, TimestampType.NO_TIMESTAMP_TYPE)
    except ConnectError as error:
        return _dump({**where, "error": told(error)})
    if record is None:
        return _dump({**where, "dropped": True})
    return _dump({**where, **_content(record)})


def _content(record: SinkRecord) -> dict[str, Any]:
    found: dict[str, Any] = {"timestamp": record.timestamp}
    if record.topic != record.original_topic:
        found["routed_to"] = record.topic
    found["key"], found["value"] = plain(record.key), plain(record.value)
    if record.headers:
        found["headers"] = {header.key: plain(header.value) for header in record.headers}
    return found


def plain(value: Any) -> Any:
    """Return a value that JSON can represent."""
    if isinstance(value, Struct):
        return {field.name: plain(value.get(field.name)) for field in value.schema.fields}
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "backslashreplace")
    return value


def _dump(value: dict[str, Any]) -> str:
    return msgspec.json.encode(value, enc_hook=as_json).decode()
