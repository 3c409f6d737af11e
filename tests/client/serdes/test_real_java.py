"""Kafka's own serializers beside ours: the same bytes of the same values, and back."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from moldau.client.base.given import resolve
from moldau.client.serdes import Place
from moldau.client.serdes.resolve import resolve_deserializer, resolve_serializer
from moldau.client.settings.rows import CONSUMER_SETTINGS, PRODUCER_SETTINGS
from tests.peers.apache_kafka import fetch_or_skip

pytestmark = pytest.mark.real

SOURCE = Path(__file__).with_name("SerdesOfJava.java")
PLACE = Place("t", False)
CASES: list[tuple[str, list[str], Callable[[str], Any]]] = [
    ("string", ["", "a", "W\xfcrde", "\U0001f600"], str),
    ("bytes", ["raw"], lambda text: text.encode()),
    ("short", ["0", "-1", "32767", "-32768"], int),
    ("int", ["0", "-1", "2147483647", "-2147483648"], int),
    ("long", ["0", "-1", "9223372036854775807", "-9223372036854775808"], int),
    ("float", ["0.0", "-1.5", "3.25"], float),
    ("double", ["0.0", "-1.5", "1.0E300", "0.1"], float),
    ("boolean", ["true", "false"], lambda text: text == "true"),
    (
        "json",
        ['{"a":[1,2.5,null,true,"W\xfcrde \\" \\\\ \\n"],"b":{}}', "[]", '"x"', "7"],
        json.loads,
    ),
    ("uuid", ["01234567-89ab-cdef-0123-456789abcdef"], UUID),
]


def test_the_bytes_are_those_of_kafkas_classes_in_both_directions() -> None:
    producer = resolve(PRODUCER_SETTINGS, {"bootstrap.servers": "h:1"}, {})
    consumer = resolve(CONSUMER_SETTINGS, {"bootstrap.servers": "h:1"}, {})
    runtime: Any = None  # none of these needs one
    asked: list[tuple[str, str, Any, bytes, Any]] = []
    for kind, texts, value_of in CASES:
        write = resolve_serializer(kind, producer, is_key=False, runtime=runtime)
        read = resolve_deserializer(kind, consumer, is_key=False, runtime=runtime)
        assert write is not None
        for text in texts:
            value = value_of(text)
            data: Any = write(value, PLACE)
            asked.append((kind, text, value, data, read))

    lines = [f"{kind}\t{_text(text)}\t{_b64(data)}" for kind, text, _, data, _ in asked]
    answers = fetch_or_skip().run_source(SOURCE, lines)

    for (kind, text, value, data, read), answer in zip(asked, answers, strict=True):
        written, told = (base64.b64decode(each) for each in answer.split("\t"))
        assert written == data, (kind, text)
        assert told.decode() == text, (kind, text)
        assert read is not None
        assert read(written, PLACE) == value, (kind, text)


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _text(text: str) -> str:
    return _b64(text.encode())
