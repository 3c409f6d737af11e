"""The values of a poll, converted at once, are those of its records, converted one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client import NewTopic
from moldau.client.base.columns import PartitionColumns
from moldau.client.sync import Admin, Consumer, Producer
from moldau.connect.api import Converter, Headers
from moldau.connect.api.conversion import HeaderConverter
from moldau.connect.converters.json import JsonConverter
from moldau.connect.converters.plain import ByteArrayConverter, IntegerConverter, StringConverter
from moldau.connect.task.chain import Chain, Converters
from moldau.connect.task.tolerance import Tolerance
from moldau.testing import SyncEmbeddedBroker

CONVERTERS: list[tuple[type[Converter], dict[str, str]]] = [
    (StringConverter, {}),
    (StringConverter, {"converter.encoding": "UTF-16"}),
    (StringConverter, {"converter.encoding": "ISO-8859-1"}),
    (ByteArrayConverter, {}),
    (IntegerConverter, {}),
    (JsonConverter, {"schemas.enable": "false"}),
    (JsonConverter, {"schemas.enable": "true"}),
]
ENVELOPE = b'{"schema": {"type": "string"}, "payload": "in an envelope"}'
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children),
    max_leaves=5,
)
DATA = st.one_of(
    st.none(),
    st.binary(max_size=8),
    st.text().map(str.encode),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.just(ENVELOPE),
)


def made(cls: type[Converter], props: dict[str, str]) -> Converter:
    converter = cls()
    converter.configure(props, False)
    return converter


def shown(values: Sequence[object]) -> list[str]:
    """Told apart by type: 1 is not True, and NaN is itself."""
    return [repr(value) for value in values]


def one_by_one(converter: Converter, data: Sequence[bytes | None]) -> list[str] | type[Exception]:
    try:
        return shown([converter.to_connect_data("t", Headers(), each).value for each in data])
    except Exception as error:
        return type(error)


def at_once(converter: Converter, data: Sequence[bytes | None]) -> list[str] | type[Exception]:
    try:
        return shown(converter.to_connect_values("t", data))
    except Exception as error:
        return type(error)


@pytest.mark.parametrize(("cls", "props"), CONVERTERS)
@given(data=st.lists(DATA, min_size=1, max_size=6))
def test_values_at_once_are_those_one_by_one(
    cls: type[Converter], props: dict[str, str], data: list[bytes | None]
) -> None:
    converter = made(cls, props)
    assert at_once(converter, data) == one_by_one(converter, data)


VALUES = st.one_of(st.text(), st.none(), st.integers(), st.just("\ud800"))


@pytest.mark.parametrize(("cls", "props"), CONVERTERS)
@given(values=st.lists(VALUES, min_size=1, max_size=6))
def test_bytes_at_once_are_those_one_by_one(
    cls: type[Converter], props: dict[str, str], values: list[object]
) -> None:
    converter = made(cls, props)

    def outcome(convert: Callable[[], list[bytes | None]]) -> list[bytes | None] | type[Exception]:
        try:
            return convert()
        except Exception as error:
            return type(error)

    at_once = outcome(lambda: converter.from_connect_values("t", None, values))
    single = converter.from_connect_data
    assert at_once == outcome(lambda: [single("t", None, None, each) for each in values])


def columns(broker: SyncEmbeddedBroker, topic: str) -> PartitionColumns:
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as all_:
        all_.assign(all_.partitions(topic))
        while not (parts := all_.poll_batches(60)):
            pass
        (part,) = parts
        return part


def values_of(part: PartitionColumns, *, key: Converter, value: Converter) -> list[object] | None:
    header = cast(HeaderConverter, made(StringConverter, {}))
    chain = Chain(Converters(key, value, header), [], cast(Tolerance, None))
    return chain.values_of(part)


def test_only_parts_that_are_good_as_a_whole_give_values(moldau_broker: SyncEmbeddedBroker) -> None:
    text, number = made(StringConverter, {}), made(IntegerConverter, {})
    plain, bad_key, with_headers = "values-plain", "values-bad-key", "values-headers"
    with Admin(bootstrap_servers=moldau_broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(each, 1, 1) for each in (plain, bad_key, with_headers)])
    with Producer(bootstrap_servers=moldau_broker.bootstrap_servers, linger_ms=50) as producer:
        for value in (b"a", None, b"\xff"):
            producer.send(plain, value)
        producer.send(bad_key, b"a", key=b"not four bytes")
        producer.send(with_headers, b"a", headers=[("h", b"1")])

    assert values_of(columns(moldau_broker, plain), key=text, value=text) == ["a", None, "\ufffd"]
    assert values_of(columns(moldau_broker, plain), key=number, value=text) is not None
    assert values_of(columns(moldau_broker, plain), key=text, value=number) is None
    assert values_of(columns(moldau_broker, bad_key), key=text, value=text) == ["a"]
    assert values_of(columns(moldau_broker, bad_key), key=number, value=text) is None
    assert values_of(columns(moldau_broker, with_headers), key=text, value=text) is None
