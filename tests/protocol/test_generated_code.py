"""The generated functions of every message: they compile, they are readable, they can be shown."""

from __future__ import annotations

import pytest

from moldau.protocol.codegen import __main__ as show
from moldau.protocol.declare import Message
from moldau.protocol.messages import API, request_class, response_class
from moldau.protocol.messages.fetch import FetchRequest
from moldau.protocol.schemas import schema_class, schema_names
from moldau.protocol.spec import blank

ALL: list[type[Message]] = [
    *(request_class(key) for key in API),
    *(response_class(key) for key in API),
    *(schema_class(name) for name in schema_names()),
]


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_defaults_survive_every_version(cls: type[Message]) -> None:
    for version in cls.spec.versions.all():
        message = blank(cls.spec)
        data = message.encode(version)
        assert cls.decode(data, version) == message
        assert cls.decode(memoryview(data), version) == message
        assert b"".join(message.encode_parts(version)) == data


def test_each_line_knows_its_place() -> None:
    source = FetchRequest.codec.reader_source(12)
    assert len(source.lines) == len(source.places)
    index = next(at for at, line in enumerate(source.lines) if "unpack_iiqiqiB" in line)
    assert [path[-1] for _, path in source.places[index].run][:2] == [
        "partition",
        "current_leader_epoch",
    ]


def test_neighbours_are_read_in_one_call() -> None:
    text = FetchRequest.codec.reader_source(12).text()
    assert text.count("unpack_iiqiqiB") == 1
    assert "range(n)" in text
    assert 'def read(data, p, budget):\n    """FetchRequest, version 12."""' in text


def test_code_is_shown_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    assert show.main(["FetchRequest", "12"]) == 0
    shown = capsys.readouterr().out
    assert "def read(data, p, budget):" in shown
    assert "def write(message):" in shown
    assert show.main(["FetchResponse", "4"]) == 0
    assert "FetchResponse, version 4" in capsys.readouterr().out
    assert show.main(["RequestHeader"]) == 0
    assert "RequestHeader, version 2" in capsys.readouterr().out


def test_showing_something_unknown_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert show.main(["FishRequest"]) == 1
    assert "no message is called 'FishRequest'" in capsys.readouterr().err
    assert show.main(["FetchRequest", "99"]) == 1
    assert show.main(["FetchRequest", "twelve"]) == 2
    assert show.main([]) == 2
    assert "usage" in capsys.readouterr().err
