"""Our codec against the second one: every message, every version, values made by hypothesis."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.errors.codes import KafkaError
from moldau.protocol.failures import UnencodableMessage
from tests import oracle
from tests.protocol.oracle import our_messages, second_codec, values
from tests.protocol.oracle.effort import few_examples
from tests.protocol.oracle.second_codec import Refused

pytestmark = oracle.needs_schemas

_UNKNOWN_TAGS = st.dictionaries(st.integers(100, 2**31 - 1), st.binary(max_size=5), max_size=3)


@pytest.mark.parametrize(("name", "version"), oracle.message_versions())
@few_examples
@given(data=st.data())
def test_both_codecs_write_the_same_bytes_and_read_the_same_value(
    name: str, version: int, data: st.DataObject
) -> None:
    schema, cls = oracle.message(name), our_messages.message_class(name)
    value = second_codec.complete(schema, data.draw(values.values(schema, version)))
    theirs = second_codec.encode(schema, version, value)
    message = our_messages.from_value(cls, value)

    assert message.encode(version) == theirs
    assert b"".join(message.encode_parts(version)) == theirs
    decoded = cls.decode(theirs, version)
    assert our_messages.to_value(decoded) == value
    assert decoded == message


@pytest.mark.parametrize("name", oracle.living_messages())
@few_examples
@given(data=st.data())
def test_unknown_tagged_fields_are_skipped_and_neighbours_are_left_alone(
    name: str, data: st.DataObject
) -> None:
    schema, cls = oracle.message(name), our_messages.message_class(name)
    version = data.draw(st.sampled_from(list(schema.versions)))
    value = second_codec.complete(schema, data.draw(values.values(schema, version)))
    tags = data.draw(_UNKNOWN_TAGS)
    encoded = second_codec.encode(schema, version, value, tags)

    decoded, end = cls.decode_from(b"\xff\xff" + encoded + b"\xff\xff", 2, version)
    assert our_messages.to_value(decoded) == value
    assert end == 2 + len(encoded)


@pytest.mark.parametrize("name", oracle.living_messages())
@few_examples
@given(data=st.data())
def test_versions_that_lack_a_field_drop_or_refuse_it_alike(name: str, data: st.DataObject) -> None:
    schema = oracle.message(name)
    made_for = data.draw(st.sampled_from(list(schema.versions)))
    version = data.draw(st.sampled_from(list(schema.versions)))
    value = second_codec.complete(schema, data.draw(values.values(schema, made_for)))
    message = our_messages.from_value(our_messages.message_class(name), value)
    try:
        theirs = second_codec.encode(schema, version, value)
    except Refused:
        with pytest.raises((KafkaError, UnencodableMessage)):
            message.encode(version)
    else:
        assert message.encode(version) == theirs


def test_every_schema_has_a_class_and_every_class_a_schema() -> None:
    assert our_messages.classes().keys() == set(oracle.living_messages())
