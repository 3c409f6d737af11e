"""The error of a key or value that a serializer cannot take."""

from __future__ import annotations

import pytest

from moldau.client.serdes.contract import Place, failed_to_serialize
from moldau.client.serdes.registry.schemas import RegistryError
from moldau.values.failures import SerializationFailed


@pytest.mark.parametrize(
    ("value", "error", "type_name"),
    [
        (5, TypeError("no text"), "int"),
        ([5], SerializationFailed("it does not fit"), "list"),
        (["a", None, 5.0], SerializationFailed("it does not fit", index=2), "float"),
        (["a", "b"], RegistryError("there is no such subject", status=404), None),
        ("a", RegistryError("there is no such subject", status=404), None),
    ],
)
def test_the_type_is_that_of_the_value_at_fault(
    value: object, error: Exception, type_name: str | None
) -> None:
    failed = failed_to_serialize(Place("orders", is_key=False), value, error)
    assert failed.context.get("type") == type_name
    assert failed.context["topic"] == "orders"
    assert failed.context["setting"] == "value.serializer"
