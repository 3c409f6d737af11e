"""From what a client was told to the serde itself."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from moldau.client.base.given import resolve
from moldau.client.serdes import Place, SchemaRegistry
from moldau.client.serdes.registry.naming import (
    SchemaOptions,
    record_subject,
    topic_record_subject,
    topic_subject,
)
from moldau.client.serdes.resolve import (
    FORMATS,
    close_serde,
    resolve_deserializer,
    resolve_serializer,
)
from moldau.client.settings.rows import CONSUMER_SETTINGS, PRODUCER_SETTINGS
from moldau.config import Settings
from moldau.errors import ConfigError
from moldau.plugins import Plugins
from moldau.plugins.extras import need
from moldau.runtime import Runtime
from moldau.runtime.real import RealRuntime

KEY, VALUE = Place("t", True), Place("t", False)
JAVA = "org.apache.kafka.common.serialization."
CONFLUENT = "io.confluent.kafka.serializers."


def producer(**options: Any) -> Settings:
    return resolve(PRODUCER_SETTINGS, {"bootstrap.servers": "h:1"}, options)


def consumer(**options: Any) -> Settings:
    return resolve(CONSUMER_SETTINGS, {"bootstrap.servers": "h:1"}, options)


def both(serializer: Any, deserializer: Any, **options: Any) -> tuple[Any, Any]:
    """Made, used nowhere, and ended."""

    async def main() -> tuple[Any, Any]:
        async with RealRuntime() as runtime:
            return await _both(runtime, serializer, deserializer, **options)

    return asyncio.run(main())


async def _both(
    runtime: Runtime, serializer: Any, deserializer: Any, **options: Any
) -> tuple[Any, Any]:
    write = resolve_serializer(serializer, producer(**options), is_key=False, runtime=runtime)
    read = resolve_deserializer(deserializer, consumer(**options), is_key=False, runtime=runtime)
    await close_serde(serializer, write)
    await close_serde(deserializer, read)
    return write, read


@pytest.mark.parametrize("name", FORMATS)
def test_every_name_makes_a_pair(name: str) -> None:
    write, read = both(name, name, schema_registry_url="http://h:1")
    assert type(write).__name__.removesuffix("Serializer") == type(read).__name__.removesuffix(
        "Deserializer"
    )


@pytest.mark.parametrize(
    ("java", "value", "data"),
    [
        (f"{JAVA}String", "a", b"a"),
        (f"{JAVA}ByteArray", b"a", b"a"),
        (f"{JAVA}ByteBuffer", b"a", b"a"),
        (f"{JAVA}Integer", 1, b"\0\0\0\1"),
        (f"{JAVA}Long", 1, bytes(7) + b"\1"),
        (f"{JAVA}Short", 1, b"\0\1"),
        (f"{JAVA}Float", 0.0, bytes(4)),
        (f"{JAVA}Double", 0.0, bytes(8)),
        (f"{JAVA}Boolean", True, b"\1"),
        (f"{CONFLUENT}KafkaJson", [1], b"[1]"),
        ("org.apache.kafka.connect.json.Json", [1], b"[1]"),
    ],
)
def test_javas_names_mean_the_same(java: str, value: Any, data: bytes) -> None:
    write, read = both(f"{java}Serializer", f"{java}Deserializer")
    assert write(value, VALUE) == data
    assert read(data, VALUE) == value


@pytest.mark.parametrize(
    ("java", "name"),
    [
        (f"{CONFLUENT}KafkaAvro", "Avro"),
        (f"{CONFLUENT}protobuf.KafkaProtobuf", "Protobuf"),
        (f"{CONFLUENT}json.KafkaJsonSchema", "JsonSchema"),
    ],
)
def test_confluents_names_need_the_address_of_a_registry(java: str, name: str) -> None:
    write, read = both(f"{java}Serializer", f"{java}Deserializer", schema_registry_url="http://h:1")
    assert (type(write).__name__, type(read).__name__) == (
        f"{name}Serializer",
        f"{name}Deserializer",
    )
    with pytest.raises(ConfigError, match=r"schema\.registry\.url"):
        both(f"{java}Serializer", None)


def test_a_deserializers_name_is_none_of_a_serializer() -> None:
    with pytest.raises(ConfigError, match=r"value\.serializer"):
        both(f"{JAVA}StringDeserializer", None)


def test_text_has_the_encoding_of_the_settings() -> None:
    runtime: Any = None
    write = resolve_serializer(
        "string", producer(serializer_encoding="latin-1"), is_key=True, runtime=runtime
    )
    assert write is not None
    assert write("\xfc", KEY) == b"\xfc"
    with pytest.raises(ConfigError, match=r"serializer\.encoding"):
        resolve_serializer(
            "string", producer(serializer_encoding="utf-9"), is_key=True, runtime=runtime
        )


# By what both sides' settings end with: X is serializer.encoding or deserializer.encoding.
ENCODINGS = [
    ({"X": "ISO-8859-1"}, b"\xfc", b"\xfc"),
    ({"key.X": "ISO-8859-1"}, b"\xfc", b"\xc3\xbc"),
    ({"value.X": "ISO-8859-1"}, b"\xc3\xbc", b"\xfc"),
    ({"X": "UTF-16BE", "key.X": "ISO-8859-1"}, b"\xfc", b"\x00\xfc"),
    ({"X": "ISO-8859-1", "value.X": "UTF-8"}, b"\xfc", b"\xc3\xbc"),
]


@pytest.mark.parametrize(("given", "key", "value"), ENCODINGS)
def test_keys_and_values_may_have_an_encoding_each(
    given: dict[str, str], key: bytes, value: bytes
) -> None:
    runtime: Any = None
    writer = {name.replace("X", "serializer.encoding"): each for name, each in given.items()}
    reader = {name.replace("X", "deserializer.encoding"): each for name, each in given.items()}
    for place, data in ((KEY, key), (VALUE, value)):
        is_key = place is KEY
        write = resolve_serializer(
            f"{JAVA}StringSerializer", producer(**writer), is_key=is_key, runtime=runtime
        )
        read = resolve_deserializer(
            f"{JAVA}StringDeserializer", consumer(**reader), is_key=is_key, runtime=runtime
        )
        assert write is not None
        assert read is not None
        assert write("\xfc", place) == data
        assert read(data, place) == "\xfc"


@pytest.mark.parametrize("name", ["key.deserializer.encoding", "deserializer.encoding"])
def test_an_encoding_that_there_is_not_is_told_by_the_setting_that_has_it(name: str) -> None:
    runtime: Any = None
    settings = consumer(**{name: "x-windows-874"})
    with pytest.raises(ConfigError, match="no such encoding: x-windows-874") as caught:
        resolve_deserializer("string", settings, is_key=True, runtime=runtime)
    assert caught.value.context["setting"] == name


@pytest.mark.parametrize("function", [json.loads, lambda data: json.loads(data), int])
def test_a_function_of_the_value_alone_will_do(function: Any) -> None:
    _, read = both(None, function)
    assert read(b"12", VALUE) == 12


def test_a_function_of_value_and_place_gets_both() -> None:
    def write(value: str, place: Place) -> bytes:
        return f"{place.topic}:{value}".encode()

    chosen, _ = both(write, None)
    assert chosen is write


@pytest.mark.parametrize("given", [3, object(), SchemaRegistry])
def test_what_cannot_be_called_so_is_told(given: Any) -> None:
    if given is SchemaRegistry:
        from moldau.client.serdes import AvroSerializer

        given = AvroSerializer
    with pytest.raises(ConfigError, match=r"value\.serializer"):
        both(given, None)


def test_nothing_is_nothing() -> None:
    assert both(None, None) == (None, None)


def test_a_plugin_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        name, group, dist = "upper", "moldau.serdes", None
        value = f"{__name__}:upper"

    monkeypatch.setattr(
        "moldau.client.serdes.resolve.installed_plugins", lambda: Plugins([Entry()])
    )
    write, read = both("upper", "upper")
    assert write("a", VALUE) == b"A"
    assert read(b"A", VALUE) == "a"


def upper(choice: Any) -> Any:
    if choice.is_serializer:
        return lambda value, place: value.upper().encode()
    return lambda data, place: data.decode().lower()


def test_schemas_are_found_as_the_settings_say() -> None:
    options = SchemaOptions.of(
        producer(
            key_subject_name_strategy=f"{CONFLUENT}subject.RecordNameStrategy",
            value_subject_name_strategy="topic-record",
            auto_register_schemas=False,
            use_schema_id=7,
        ),
        is_key=False,
    )
    assert options == SchemaOptions(topic_record_subject, auto_register=False, use_id=7)
    assert SchemaOptions.of(producer(), is_key=True) == SchemaOptions(topic_subject)
    told = producer(json_fail_invalid_schema=False, normalize_schemas=True, use_latest_version=True)
    assert SchemaOptions.of(told, is_key=True) == SchemaOptions(
        topic_subject, normalize=True, use_latest=True, validates=False
    )
    assert topic_subject(KEY, None) == "t-key"
    assert topic_record_subject(VALUE, "a.B") == "t-a.B"
    assert record_subject(VALUE, "a.B") == "a.B"
    with pytest.raises(ConfigError, match=r"value\.subject\.name\.strategy"):
        SchemaOptions.of(producer(value_subject_name_strategy="mine"), is_key=False)


def test_a_library_that_is_missing_is_told_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ConfigError, match=r"pip install 'moldau\[avro\]'"):
        need("fastavro", "avro")
