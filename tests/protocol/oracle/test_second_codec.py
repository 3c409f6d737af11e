"""The second codec must be right before it may judge: Kafka's own answers judge it."""

from __future__ import annotations

import pytest

from tests import oracle
from tests.protocol.oracle import golden, kafka_json, second_codec
from tests.protocol.oracle.second_codec import Refused
from tests.protocol.oracle.values import seeded

pytestmark = oracle.needs_schemas


@pytest.mark.parametrize("name", golden.samples_by_message())
def test_it_reads_and_writes_kafkas_bytes(name: str) -> None:
    schema = oracle.message(name)
    for sample in golden.samples_by_message()[name]:
        value = second_codec.decode(schema, sample.version, sample.data)
        assert kafka_json.to_json(schema, sample.version, value) == sample.json
        assert second_codec.encode(schema, sample.version, value) == sample.data


@pytest.mark.parametrize("name", oracle.living_messages())
def test_it_reads_back_what_it_wrote_beside_tags_it_does_not_know(name: str) -> None:
    schema = oracle.message(name)
    for version in schema.versions:
        value = second_codec.complete(schema, seeded(schema, version, seed=7))
        plain = second_codec.encode(schema, version, value)
        tagged = second_codec.encode(schema, version, value, {1000: b"", 70000: b"unknown"})
        assert (len(tagged) > len(plain)) == (version in schema.flexible)
        assert second_codec.decode(schema, version, plain) == value
        assert second_codec.decode(schema, version, tagged) == value


def test_it_refuses_what_an_older_version_would_lose() -> None:
    schema = oracle.message("HeartbeatRequest")
    with pytest.raises(Refused, match="GroupInstanceId"):
        second_codec.encode(schema, 0, {"GroupInstanceId": "here"})


def test_it_refuses_null_where_the_schema_has_none() -> None:
    schema = oracle.message("HeartbeatRequest")
    with pytest.raises(Refused, match="MemberId"):
        second_codec.encode(schema, 4, {"MemberId": None})


def test_golden_data_covers_every_message_and_version() -> None:
    covered = {(sample.message, sample.version) for sample in golden.samples()}
    assert covered == set(oracle.message_versions())
