"""Each target sees a bug that is planted in what it watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from moldau.errors import MalformedMessage
from moldau.protocol.declare import Message
from moldau.protocol.framing import FrameReader
from moldau.records import _pure as pure
from moldau.records import decompress, kernel
from tests.fuzz import batches, corpus, settings
from tests.fuzz.messages import BUDGET, classes
from tests.fuzz.target import Finding, Target, feed
from tests.fuzz.targets import TARGETS


def finds(target: Target) -> bool:
    """Whether anything in the corpus of the target leads to a finding."""
    for _, data in corpus.load(target.name):
        try:
            feed(target, data)
        except Finding:
            return True
    return False


def losing_frames(received: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    def patched(reader: FrameReader, count: int) -> Iterator[Any]:
        return (frame for frame in received(reader, count) if len(frame) != 0)

    return patched


def test_a_reader_that_loses_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FrameReader, "received", losing_frames(FrameReader.received))

    assert finds(TARGETS["requests"])


def test_a_reader_that_takes_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FrameReader, "_refuse_size", lambda self, size: None)

    assert finds(TARGETS["requests"])


def test_a_message_whose_parts_are_not_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = Message.encode_parts

    def without_the_last(self: Message, version: int) -> Sequence[Any]:
        return parts(self, version)[:-1]

    monkeypatch.setattr(Message, "encode_parts", without_the_last)

    assert finds(TARGETS["messages"])


def test_a_decoder_that_invents(monkeypatch: pytest.MonkeyPatch) -> None:
    heartbeat = next(cls for cls in classes().values() if cls.spec.name == "HeartbeatResponse")
    encode = heartbeat.encode
    versions = iter(range(1000))

    def drifting(self: Any, version: int) -> bytes:
        self.error_code = next(versions)
        return encode(self, version)

    monkeypatch.setattr(heartbeat, "encode", drifting)

    assert finds(TARGETS["messages"])


@pytest.mark.skipif(kernel.KERNEL == "pure", reason="there is only one kernel here")
def test_kernels_that_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = pure.scan
    monkeypatch.setattr(pure, "scan", lambda section, header, rules, most: scan(section, header, 0))

    assert finds(TARGETS["records"])


def test_a_judge_that_lets_everything_through(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unjudged:
        timestamp_max = 5

    monkeypatch.setattr(batches, "_same_in_both_kernels", lambda batch: None)
    monkeypatch.setattr(batches, "validate", lambda batch, rules: Unjudged())

    assert finds(TARGETS["records"])


def test_decompression_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        batches, "decompress", lambda codec, data, limit: decompress(codec, data, 2 * limit)
    )

    assert finds(TARGETS["compression"])


def test_properties_that_do_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        settings,
        "format_properties",
        lambda values: "".join(f"{k}={v}\n" for k, v in values.items()),
    )

    assert finds(TARGETS["properties"])


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_is_found_where_nothing_is_planted(name: str) -> None:
    assert not finds(TARGETS[name])


def test_the_fuzzed_budget_is_one_that_messages_can_exceed() -> None:
    """Otherwise the targets would say nothing about it."""
    brokers = (200_000).to_bytes(4, "big") + b"\0" * 2_000_000
    metadata = next(cls for cls in classes().values() if cls.spec.name == "MetadataResponse")

    with pytest.raises(MalformedMessage, match="budget"):
        metadata.decode(brokers, 0, budget=BUDGET)
