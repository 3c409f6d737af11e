"""Our codec against what Apache Kafka's own classes answered (see `golden`); needs nothing else."""

from __future__ import annotations

import pytest

from moldau.errors.codes import KafkaError
from moldau.protocol.failures import UnencodableMessage
from tests.protocol.oracle import golden, our_messages


@pytest.mark.parametrize("name", golden.samples_by_message())
def test_our_bytes_are_kafkas_bytes(name: str) -> None:
    cls = our_messages.message_class(name)
    for sample in golden.samples_by_message()[name]:
        message = our_messages.from_kafka_json(cls, sample.json)
        assert message.encode(sample.version).hex() == sample.data.hex(), str(sample)
        assert cls.decode(sample.data, sample.version) == message, str(sample)


@pytest.mark.parametrize("sample", golden.downgrades(), ids=lambda sample: sample.message)
def test_other_versions_take_a_value_or_refuse_it_as_kafka_does(sample: golden.Downgrade) -> None:
    cls = our_messages.message_class(sample.message)
    message = our_messages.from_kafka_json(cls, sample.json)
    for version, data in sample.written.items():
        if data is None:
            with pytest.raises((KafkaError, UnencodableMessage)):
                message.encode(version)
        else:
            assert message.encode(version).hex() == data.hex(), version


def test_every_version_of_every_class_is_covered() -> None:
    declared = {
        (name, version)
        for name, cls in our_messages.classes().items()
        for version in cls.spec.versions.all()
    }
    assert {(sample.message, sample.version) for sample in golden.samples()} == declared
