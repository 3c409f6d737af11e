"""Records as JSON tell bytes from text that looks like them."""

from __future__ import annotations

import json

import pytest

from moldau.cli.commands.consume_format import lines_of
from moldau.client import ConsumerRecord, PartitionRecords


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (None, None),
        (b"", ""),
        ("gr\u00fc\u00df".encode(), "gr\u00fc\u00df"),
        (b"\\xff", "\\xff"),
        (b"\xff", {"base64": "/w=="}),
        (b'{"base64": "/w=="}', '{"base64": "/w=="}'),
        ("\ud800".encode("utf-8", "surrogatepass"), {"base64": "7aCA"}),
    ],
)
def test_json_has_text_as_it_is_and_other_bytes_as_base64(
    data: bytes | None, shown: object
) -> None:
    record = ConsumerRecord("t", 0, 7, 8, data, data, (("name", data),))
    (line,) = lines_of("value", ":", json=True)(PartitionRecords("t", 0, [record], 8, 8))
    document = json.loads(line)
    assert (document["key"], document["value"]) == (shown, shown)
    assert document["headers"] == [{"name": "name", "value": shown}]
