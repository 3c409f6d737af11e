"""The keywords of the clients are typed, and their types are those of the settings' rows."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import pytest

import moldau.client
import moldau.client.serdes
import moldau.client.sync
from moldau.client.base.given import resolve
from moldau.client.settings import rows
from moldau.client.settings.serdes import REGISTRY_SETTINGS, basic_auth_user_info
from moldau.config import Secret, SettingTable
from moldau.config.checks import at_least, one_of, one_of_ignoring_case
from moldau.config.setting import Absent
from tests.client.settings.options.__main__ import (
    HOMES_OF_KEYWORDS,
    KEYWORDS,
    Keywords,
    choices_of,
    module_of,
    path_of,
    render,
)

ROOT: Final = Path(__file__).parents[4]
CLIENTS: Final = {
    "Admin": (rows.ADMIN_SETTINGS, moldau.client.AdminOptions),
    "Consumer": (rows.CONSUMER_SETTINGS, moldau.client.ConsumerOptions),
    "Producer": (rows.PRODUCER_SETTINGS, moldau.client.ProducerOptions),
    "SchemaRegistry": (REGISTRY_SETTINGS, moldau.client.serdes.RegistryOptions),
}


@pytest.mark.parametrize("home", HOMES_OF_KEYWORDS)
def test_the_modules_are_those_that_the_rows_make(home: str) -> None:
    assert path_of(home).read_text(encoding="utf-8") == render(home), (
        "a row has changed: python -m tests.client.settings.options"
    )


@pytest.mark.parametrize("name", CLIENTS)
def test_each_setting_is_a_keyword_of_its_client_and_nothing_else_is(name: str) -> None:
    table, options = CLIENTS[name]
    expected = {each.replace(".", "_") for row in table for each in (row.name, *row.aliases)}
    asynchronous = moldau.client.serdes if name == "SchemaRegistry" else moldau.client
    for client in (getattr(asynchronous, name), getattr(moldau.client.sync, name)):
        parameters = inspect.signature(client.__init__).parameters
        explicit = set(parameters) & expected
        assert set(get_type_hints(options)) == expected - explicit
        assert parameters["options"].annotation == f"Unpack[{options.__name__}]"


@pytest.mark.parametrize("name", CLIENTS)
def test_a_keyword_is_typed_as_what_its_setting_takes(name: str) -> None:
    """As Python's value; Kafka's text of it is read too."""
    table, options = CLIENTS[name]
    hints = get_type_hints(options)
    known = {row.name.replace(".", "_"): row for row in table}
    for keyword, hint in hints.items():
        row = known.get(keyword)
        if row is None or isinstance(row.default, Absent):
            continue
        assert fits(row.default, hint), (keyword, row.default, hint)
        if row.default not in (None, ()):
            assert taken(table, keyword, row.default) == row.default
        text = row.write(row.default)
        if text is not None:
            assert taken(table, keyword, text) == row.default
    assert not fits(1.5, hints.get("request_timeout_ms", int))
    assert not fits(5, hints.get("client_id", str))


@pytest.mark.parametrize("keywords", KEYWORDS, ids=lambda each: each.name)
def test_a_keyword_with_choices_is_typed_as_these(keywords: Keywords) -> None:
    """So a checker finds a misspelled one. Other values are Python's beside Kafka's texts."""
    module = import_module(module_of(keywords.home))
    hints = get_type_hints(getattr(module, keywords.class_name))
    for row in keywords.rows:
        if choices_of(row):
            hint = hints[row.name.replace(".", "_")]
            literals = [each for each in (hint, *get_args(hint)) if get_origin(each) is Literal]
            assert len(literals) == 1, row.name
            texts = [each for each in get_args(literals[0]) if isinstance(each, str)]
            assert texts == list(choices_of(row)), row.name


def test_choices_are_all_that_their_check_takes() -> None:
    for check in (one_of("a", "B"), one_of_ignoring_case("a", "B")):
        assert check.choices == ("a", "B")
        assert all(map(check.holds, check.choices))
    assert not at_least(1).choices


def taken(table: SettingTable, keyword: str, value: object) -> Any:
    """What the setting is when the keyword is given."""
    needed = {} if table is REGISTRY_SETTINGS else {"bootstrap_servers": "a:1"}
    settings = resolve(table, {}, {**needed, keyword: value})
    row = table.find(keyword.replace("_", "."))
    assert row is not None
    return settings[row]


def fits(value: object, hint: Any) -> bool:
    """Whether a type checker lets the value through, as far as settings have types."""
    parts = () if get_origin(hint) is Literal else get_args(hint)
    return any(_is_a(value, each) for each in parts or (hint,))


def _is_a(value: object, hint: Any) -> bool:
    if get_origin(hint) is Sequence or str(hint).startswith("collections.abc.Sequence"):
        return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if hint is None:
        hint = NoneType
    if hint is bool or isinstance(value, bool):
        return hint is bool and isinstance(value, bool)
    return hint in (int, float, str, NoneType) and isinstance(value, hint)


def test_a_password_may_be_a_secret() -> None:
    given = {
        "bootstrap_servers": "a:1",
        "basic_auth_credentials_source": "USER_INFO",
        "basic_auth_user_info": Secret("me:hush"),
    }
    settings = resolve(rows.CONSUMER_SETTINGS, {}, given)
    assert settings[basic_auth_user_info] == Secret("me:hush")


PROGRAM: Final = """
from moldau.client import Admin, Consumer, DeserializationFailed, ConsumerRecord, Producer
from moldau.client import ProducerInterceptor, ProducerRecord
from moldau.client.serdes import AvroSerializer, JsonDeserializer, JsonSerializer, SchemaRegistry
from moldau.client.sync import Producer as Blocking
from moldau.client.sync import SchemaRegistry as BlockingRegistry
from moldau.config import Secret

HUSH = Secret("me:hush")


class First:
    def partition(self, record: object, key: object, value: object, topic: object) -> int:
        return 0


Admin(bootstrap_servers=["a:1", "b:1"], request_timeout_ms=5000)
Admin(request_timeout_ms="5000")  # incompatible type "str"; expected "int"
Producer(linger_ms="5")  # incompatible type "str"; expected "int"
Producer(acks="some")  # expected "Literal
Producer(acks="0", compression_type="zstd")
Producer(compression_type="zst")  # expected "Literal
Consumer(group_protocol="consumr")  # expected "Literal
Admin(security_protocol="SASL")  # expected "Literal
Admin(sasl_mechanism="SCRAM")  # expected "Literal
Consumer(auto_offset_reset="earlyest")  # expected "Literal
Consumer(auto_offset_reset="none", isolation_level="read_committed")
Consumer(isolation_level="committed")  # expected "Literal
Producer(linger_ms=5, acks=1, partitioner_class=First(), value_serializer=str.encode)
Consumer(group_id=None, check_crcs=False, key_deserializer="string")
Consumer(key_deserializer=bytes.decode, value_deserializer=JsonDeserializer(int))
Producer(key_serializer="uuid", value_serializer=JsonSerializer(), basic_auth_user_info=HUSH)
Producer(key_serializer=None, schema_registry_url="http://a:1", basic_auth_user_info="me:hush")
Producer(key_serializer=5)  # incompatible type "int"
Consumer(value_deserializer=5)  # incompatible type "int"
Producer(linger=5)  # Unexpected keyword argument "linger" for "Producer"; did you mean "linger_ms"?
Producer(linger_ms=0.5)  # incompatible type "float"; expected "int"
Consumer(group_id=7)  # incompatible type "int"; expected "str | None"
Consumer(linger_ms=5)  # Unexpected keyword argument "linger_ms"
Blocking(batch_siz=5)  # did you mean "batch_size"?
Admin(group_id="g")  # Unexpected keyword argument "group_id"
SchemaRegistry("http://a:1", max_retries=5, latest_cache_ttl_sec=60)
SchemaRegistry("http://a:1", max_retires=5)  # did you mean "max_retries"?
BlockingRegistry("http://a:1", max_retries=0.5)  # incompatible type "float"; expected "int"
BlockingRegistry(url="http://a:1")  # Unexpected keyword argument "url"
BlockingRegistry(schema_registry_url=["http://a:1"], basic_auth_user_info=HUSH)
AvroSerializer(SchemaRegistry({"schema.registry.url": "http://a:1"}))
AvroSerializer(BlockingRegistry(None, schema_registry_url="http://a:1"))
AvroSerializer("http://a:1")  # incompatible type "str"; expected "RegistryGiven"
SchemaRegistry(5)  # incompatible type "int"


class Unchanged(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord | None:
        return None


async def talk(producer: Producer, consumer: Consumer, blocking: Blocking) -> None:
    await producer.send("t", b"v", headers=[("trace", b"1"), ("none", None)])
    await producer.send_many("t", [b"v"], headers=[[("trace", b"1")], ()])
    blocking.send("t", b"v", headers=[("trace", b"1")])
    blocking.send_many("t", [b"v"], headers=[[("trace", b"1")]])
    ProducerRecord("t", b"v", headers=[("trace", b"1")])
    await producer.send("t", b"v", headers=[("trace", 1)])  # incompatible type
    records: list[ConsumerRecord] = []
    try:
        for part in await consumer.poll():
            records += part.records
            orders: list[First] = [each.value for each in part.records]
            offsets: list[str] = [each.offset for each in part.records]  # expected List[str]
    except DeserializationFailed as error:
        consumer.seek((error.context["topic"], 0), error.context["offset"] + 1)
"""


def test_a_type_checker_knows_each_name_and_its_type(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), "--no-error-summary"]
    command += ["--hide-error-context", str(tmp_path / "program.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    assert not done.stderr
    told = dict(re.findall(r"program\.py:(\d+): error: (.*)", done.stdout))
    expected = {
        str(number): line.partition("  # ")[2]
        for number, line in enumerate(PROGRAM.splitlines(), 1)
        if "  # " in line
    }
    assert told.keys() == expected.keys(), done.stdout
    for number, words in expected.items():
        assert words in told[number]
