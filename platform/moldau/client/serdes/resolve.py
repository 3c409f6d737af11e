"""Finds the serde for what a client was given: an object, a function, or a name.

Names are those of `FORMATS`, those of Java's classes as a .properties file has them, and those of
the plugin group `moldau.serdes` (a class or function of a `Choice`). Never a dotted path: a setting
chooses among what is installed, it does not choose code.

Invariant: `close_serde` closes a serde that was made here from a name; the user closes any other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from moldau.client.serdes.contract import (
    Deserializer,
    DeserializerGiven,
    Place,
    Serializer,
    SerializerGiven,
)
from moldau.client.settings import serdes as rows
from moldau.config import Settings
from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.plugins import PluginError, Plugins, installed_plugins
from moldau.runtime.forks import import_whole

if TYPE_CHECKING:
    from moldau.runtime import Runtime

GROUP: Final = "moldau.serdes"


@dataclass(frozen=True, slots=True)
class Choice:
    """What a named serde is made for: one side of the records of one client."""

    settings: Settings
    is_key: bool
    is_serializer: bool
    runtime: Runtime

    @property
    def setting(self) -> str:
        """The setting that chooses the serde, such as `value.serializer`."""
        side = "key" if self.is_key else "value"
        return f"{side}.{'serializer' if self.is_serializer else 'deserializer'}"


Make = Callable[[Choice], Any]


@dataclass(frozen=True, slots=True)
class MadeByClient:
    """A serde that the client makes for itself, and closes, as one that is given by its name."""

    make: Make


def _of_kind(module: str, name: str, choice: Choice) -> Any:
    """Return the class. The import may run on a client's loop while another thread forks."""
    home = import_whole(f"moldau.client.serdes.{module}")
    return getattr(home, name + ("Serializer" if choice.is_serializer else "Deserializer"))


def _plain(name: str, *given: object) -> Make:
    def make(choice: Choice) -> Any:
        return _of_kind("plain", name, choice)(*given)

    return make


def _string(choice: Choice) -> Any:
    encoding, setting = rows.encoding_of(
        choice.settings, is_key=choice.is_key, is_serializer=choice.is_serializer
    )
    try:
        return _of_kind("plain", "String", choice)(encoding)
    except ValueError as error:
        raise ConfigError(str(error), setting=setting) from None


def _json(choice: Choice) -> Any:
    return _of_kind("typed_json", "Json", choice)()


def _with_registry(module: str, name: str, *given: object) -> Make:
    def make(choice: Choice) -> Any:
        if not choice.settings[rows.registry_url]:
            raise ConfigError(
                "schemas need a registry",
                setting=rows.registry_url.name,
                needed_by=choice.setting,
            )
        clients = import_whole("moldau.client.serdes.registry.client")
        names = import_whole("moldau.client.serdes.registry.naming")
        made = _of_kind(module, name, choice)
        registry = clients.SchemaRegistry(choice.settings, runtime=choice.runtime)
        options = names.SchemaOptions.of(choice.settings, is_key=choice.is_key)
        return made(*given, registry, options=options, owns_registry=True)

    return make


FORMATS: Final[dict[str, Make]] = {
    "string": _string,
    "bytes": _plain("Bytes"),
    "json": _json,
    **{kind: _plain("Number", kind) for kind in ("short", "int", "long", "float", "double")},
    "boolean": _plain("Boolean"),
    "uuid": _plain("Uuid"),
    "void": _plain("Void"),
    "avro": _with_registry("avro", "Avro"),
    "protobuf": _with_registry("protobuf", "Protobuf"),
    "json-schema": _with_registry("json_schema", "JsonSchema"),
}

TEXTS: Final = {
    "avro": MadeByClient(_with_registry("texts", "Text", "AVRO")),
    "protobuf": MadeByClient(_with_registry("texts", "Text", "PROTOBUF")),
    "json-schema": MadeByClient(_with_registry("texts", "Text", "JSON")),
}
"""Serdes of the lines of JSON that people read and write, by the format of the schema."""

_KAFKA: Final = "org.apache.kafka.common.serialization."
_CONFLUENT: Final = "io.confluent.kafka.serializers."
_JAVAS_NAMES: Final = {
    f"{_KAFKA}String": "string",
    f"{_KAFKA}ByteArray": "bytes",
    f"{_KAFKA}ByteBuffer": "bytes",
    f"{_KAFKA}Bytes": "bytes",
    f"{_KAFKA}Short": "short",
    f"{_KAFKA}Integer": "int",
    f"{_KAFKA}Long": "long",
    f"{_KAFKA}Float": "float",
    f"{_KAFKA}Double": "double",
    f"{_KAFKA}Boolean": "boolean",
    f"{_KAFKA}UUID": "uuid",
    f"{_KAFKA}Void": "void",
    "org.apache.kafka.connect.json.Json": "json",
    f"{_CONFLUENT}KafkaJson": "json",
    f"{_CONFLUENT}KafkaAvro": "avro",
    f"{_CONFLUENT}protobuf.KafkaProtobuf": "protobuf",
    f"{_CONFLUENT}json.KafkaJsonSchema": "json-schema",
}


def resolve_serializer(
    given: SerializerGiven, settings: Settings, *, is_key: bool, runtime: Runtime
) -> Serializer | None:
    """Return the serializer that was given or named, or None if values are bytes already.
    ConfigError shows the setting and the known names."""
    if given is None:
        return None
    choice = Choice(settings, is_key, True, runtime)
    return cast(Serializer, _resolve(given, choice))


def resolve_deserializer(
    given: DeserializerGiven, settings: Settings, *, is_key: bool, runtime: Runtime
) -> Deserializer | None:
    """Return the deserializer that was given or named, as `resolve_serializer` does."""
    if given is None:
        return None
    choice = Choice(settings, is_key, False, runtime)
    return cast(Deserializer, _resolve(given, choice))


async def close_serde(given: object, serde: object) -> None:
    """Close a serde that was made here. An object that was given stays open."""
    if isinstance(given, str | MadeByClient) and hasattr(serde, "aclose"):
        await serde.aclose()


def _resolve(given: object, choice: Choice) -> object:
    if isinstance(given, str):
        return _named(given, choice)
    if isinstance(given, MadeByClient):
        return given.make(choice)
    if isinstance(given, type) and any("__call__" in vars(each) for each in given.__mro__):
        raise ConfigError(
            "an instance is needed, not the class itself", setting=choice.setting, given=given
        )
    if not callable(given):
        raise ConfigError(
            "a serde is called with the value and its place",
            setting=choice.setting,
            given=type(given).__name__,
        )
    return given if _takes_place(given) else partial(_without_place, given)


def _without_place(function: Callable[[Any], Any], value: Any, place: Place, /) -> Any:
    return function(value)


def _takes_place(function: Callable[..., Any]) -> bool:
    """Whether the function needs two arguments. A function of one, such as `json.loads`, may have
    more parameters with another meaning."""
    from inspect import Parameter, signature

    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):  # a built-in function without a signature
        return False
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    needed = [each for each in parameters if each.kind in kinds and each.default is Parameter.empty]
    return len(needed) > 1


def _named(name: str, choice: Choice) -> object:
    java = name.removesuffix("Serializer" if choice.is_serializer else "Deserializer")
    make = FORMATS.get(name) or FORMATS.get(_JAVAS_NAMES.get(java, ""))
    if make is None:
        make = _load(name, choice, installed_plugins())
    return make(choice)


def _load(name: str, choice: Choice, plugins: Plugins) -> Make:
    try:
        loaded = plugins.load(GROUP, name)
    except PluginError as error:
        raise ConfigError(
            f"no such serde: {error.reason}",
            setting=choice.setting,
            given=name,
            known=[*FORMATS, *plugins.named(GROUP)],
        ) from error
    if not callable(loaded):
        raise ConfigError("the plugin makes no serde", setting=choice.setting, given=name)
    return loaded
