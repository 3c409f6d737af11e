"""Every message and version with bad bytes: only MalformedMessage may come out of a decoder.

Valid encodings (the golden ones) are cut at each byte, lengthened, and changed at each byte. A
changed one may still be a message; then it must survive being written and read again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from moldau.errors import MalformedMessage
from tests import oracle
from tests.oracle import MessageSchema
from tests.protocol.oracle import golden, our_messages, second_codec
from tests.protocol.oracle.effort import IS_THOROUGH
from tests.protocol.oracle.golden import SAMPLES_A_VERSION, Sample
from tests.protocol.oracle.second_codec import Value

_by_message = pytest.mark.parametrize("name", golden.samples_by_message())
# A length off by one, a sign or continuation bit, "null", and everything turned round.
_CHANGES = (0x01, 0x80, 0xFF)


@_by_message
def test_a_cut_or_lengthened_message_is_malformed(name: str) -> None:
    cls = our_messages.message_class(name)
    for sample in _full_samples(name):
        for end in range(len(sample.data)):
            with pytest.raises(MalformedMessage):
                cls.decode(sample.data[:end], sample.version)
        with pytest.raises(MalformedMessage):
            cls.decode(sample.data + b"\x00", sample.version)


@_by_message
def test_a_changed_message_is_malformed_or_still_a_message(name: str) -> None:
    cls = our_messages.message_class(name)
    for data, version in _changed(name, turn=0):
        try:
            message = cls.decode(data, version)
        except MalformedMessage:
            continue
        again = message.encode(version)
        assert cls.decode(again, version).encode(version) == again


@oracle.needs_schemas
@_by_message
def test_a_changed_message_means_what_it_means_to_the_second_codec(name: str) -> None:
    schema, cls = oracle.message(name), our_messages.message_class(name)
    for data, version in _changed(name, turn=1):
        theirs = _read_by_second_codec(schema, version, data)
        try:
            ours = our_messages.to_value(cls.decode(data, version))
        except MalformedMessage:
            # Ours may be stricter, but not with what a codec would write.
            assert theirs is None or second_codec.encode(schema, version, theirs) != data
        else:
            assert theirs is not None
            assert _same(ours, theirs)


def _read_by_second_codec(schema: MessageSchema, version: int, data: bytes) -> Value | None:
    try:
        return second_codec.decode(schema, version, data)
    except (ValueError, AssertionError):
        return None


def _full_samples(name: str) -> list[Sample]:
    return golden.samples_by_message()[name][::SAMPLES_A_VERSION]


def _changed(name: str, turn: int) -> Iterator[tuple[bytes, int]]:
    """Data with one byte changed, for each byte; which change comes where depends on `turn`."""
    for sample in _full_samples(name):
        for at, byte in enumerate(sample.data):
            for change in _CHANGES if IS_THOROUGH else [_CHANGES[(at + turn) % len(_CHANGES)]]:
                changed = bytes([byte ^ change])
                yield sample.data[:at] + changed + sample.data[at + 1 :], sample.version


def _same(left: Any, right: Any) -> bool:
    """Equality in which a NaN is itself."""
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, float) and math.isnan(left):
        return isinstance(right, float) and math.isnan(right)
    return bool(left == right)
