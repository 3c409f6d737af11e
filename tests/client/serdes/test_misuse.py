"""What is no registry, or no settings of one: the error says what came, what is wanted, and how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from moldau.client.serdes import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaRegistry,
)
from moldau.client.settings import serdes as rows
from moldau.client.sync import SchemaRegistry as BlockingRegistry
from moldau.errors import ConfigError

SERDES: Final[list[Callable[[Any], object]]] = [
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
]
REGISTRIES: Final[list[Any]] = [SchemaRegistry, BlockingRegistry]
ADDRESS: Final = "http://me:secret@localhost:8081"


@pytest.mark.parametrize("serde", SERDES)
@pytest.mark.parametrize(
    ("given", "told"),
    [
        (ADDRESS, "str"),
        ({"schema.registry.url": ADDRESS}, "dict"),
        (None, "NoneType"),
        (SchemaRegistry, "the class SchemaRegistry"),
    ],
    ids=str,
)
def test_a_serde_says_that_it_takes_a_registry(
    serde: Callable[[Any], object], given: Any, told: str
) -> None:
    with pytest.raises(ConfigError, match=r'SchemaRegistry\("http://localhost:8081"\)') as caught:
        serde(given)
    assert caught.value.context["given"] == told
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("registry", REGISTRIES)
@pytest.mark.parametrize("given", [ADDRESS.encode(), 5, [ADDRESS]], ids=str)
def test_a_registry_says_that_it_takes_an_address_or_settings(registry: Any, given: Any) -> None:
    with pytest.raises(ConfigError, match=r"as its address, .* or as a mapping") as caught:
        registry(given)
    assert caught.value.context["given"] == type(given).__name__
    assert caught.value.context["setting"] == rows.registry_url.name
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("registry", REGISTRIES)
def test_a_setting_that_has_another_name_is_told_with_those_that_there_are(registry: Any) -> None:
    for given, options in (({"url": ADDRESS}, {}), (None, {"url": ADDRESS})):
        with pytest.raises(ConfigError, match=r"^url: unknown setting; allowed: ") as caught:
            registry(given, **options)
        assert all(row.name in str(caught.value) for row in rows.REGISTRY_ROWS)
        assert "secret" not in str(caught.value)
    with pytest.raises(ConfigError, match=r"did you mean schema\.registry\.url\?") as caught:
        registry({"schema_registry_url": ADDRESS})
    assert "allowed" not in str(caught.value)
    with pytest.raises(ConfigError, match=r"^schema\.registry\.url must be .*http.*, not 'h:1'$"):
        registry("h:1")


@pytest.mark.parametrize("registry", REGISTRIES)
def test_a_settings_name_is_text(registry: Any) -> None:
    with pytest.raises(ConfigError, match="a setting's name is a str") as caught:
        registry({5: ADDRESS})
    assert caught.value.context == {"given": "int"}


@pytest.mark.parametrize("registry", REGISTRIES)
@pytest.mark.parametrize("given", [None, "", {}], ids=repr)
def test_a_registry_without_an_address_says_what_one_is(registry: Any, given: Any) -> None:
    with pytest.raises(ConfigError, match=r'give one, such as "http://localhost:8081"'):
        registry(given)
