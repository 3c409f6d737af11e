"""What converters with a schema registry share: the id before the payload, subjects, the registry.

A schema is registered, or looked up, once for each topic and Connect schema; an id is requested
once. A registry that does not answer is a RetriableError, one that rejects a request a DataError.

Invariant: options are read from the settings as those of serializers, so that each setting that is
taken has its effect; nothing is written or read past the rules of a schema (RulesNotRun, which
fails the task) unless `data.contract.rules` says so.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal

from moldau.client.serdes.contract import Place
from moldau.client.serdes.registry.naming import STRATEGIES, SchemaOptions
from moldau.client.serdes.registry.schemas import RegistryError
from moldau.client.settings import serdes as rows
from moldau.client.sync import SchemaRegistry
from moldau.config import Setting
from moldau.connect.api.conversion import Converter, ConverterConfig
from moldau.connect.config.model import Problem, key
from moldau.connect.data.headers import Headers
from moldau.connect.data.schema import Schema, SchemaAndValue
from moldau.connect.errors import DataError, RetriableError
from moldau.values.failures import DeserializationFailed
from moldau.values.schema import Schema as RegistrySchema
from moldau.values.wire import frame, unframe

Write = Callable[[Any], bytes]
Read = Callable[[bytes, int], Any]
_REMEMBERED_MAX = 1000
_OF_REGISTRY = frozenset(each.name for each in vars(rows).values() if isinstance(each, Setting))


class RegisteredConfig(ConverterConfig):
    """Settings of the converters with a schema registry. The registry's own settings are passed on:
    basic.auth.user.info, schema.registry.ssl.truststore.location, ..."""

    open_prefixes: ClassVar[tuple[str, ...]] = tuple(sorted(_OF_REGISTRY))

    url: str = key("schema.registry.url", doc="The addresses of the registry.", importance="high")
    auto_register: bool = key(
        "auto.register.schemas", True, doc="Register schemas that the registry does not have."
    )
    use_latest: bool = key(
        "use.latest.version", False, doc="Write with the latest schema of the subject."
    )
    key_strategy: str = key(
        "key.subject.name.strategy",
        "topic",
        doc="The subject of keys: topic, record, topic-record.",
    )
    value_strategy: str = key(
        "value.subject.name.strategy", "topic", doc="The subject of values, as for keys."
    )

    contract_rules: Literal["refuse", "ignore"] = key(
        "data.contract.rules",
        "refuse",
        doc="Refuse a schema with rules (a data contract) for what is written or read, which are "
        "not run here, or ignore the rules.",
    )

    def check(self) -> Iterable[Problem]:
        for side, given in (("key", self.key_strategy), ("value", self.value_strategy)):
            if given not in STRATEGIES:
                name = f"{side}.subject.name.strategy"
                known = ", ".join(STRATEGIES)
                yield Problem(
                    name,
                    f"Invalid value {given} for configuration {name}: "
                    f"String must be one of: {known}",
                )


class RegisteredConverter(Converter):
    """Writes the id of a schema and the payload. A subclass defines the format of both."""

    config_model = RegisteredConfig
    schema_format: ClassVar[str | None] = None
    """How the registry is to write the schemas that values are read with; None for text."""

    def configure(self, props: Mapping[str, str], is_key: bool) -> None:
        super().configure(props, is_key)
        given = {name: text for name, text in props.items() if name in _OF_REGISTRY}
        self._registry = SchemaRegistry(given)
        self._options = SchemaOptions.of(self._registry.settings, is_key=is_key)
        self._writers: dict[tuple[str, int], tuple[Schema | None, bytes, Write]] = {}
        self._readers: dict[int | str, tuple[Schema | None, Read]] = {}

    @abstractmethod
    def registered(self, schema: Schema | None, value: Any) -> tuple[RegistrySchema, str | None]:
        """Return the schema for the registry, and its full name."""

    @abstractmethod
    def writer(self, schema: Schema | None, registered: RegistrySchema) -> Write:
        """Return a function that writes values of a Connect schema with a registered schema."""

    @abstractmethod
    def reader(self, registered: RegistrySchema) -> tuple[Schema | None, Read]:
        """Return the Connect schema of a registered one, and a function that reads its values."""

    def from_connect_data(
        self, topic: str, headers: Headers | None, schema: Schema | None, value: Any
    ) -> bytes | None:
        if value is None and (schema is None or schema.optional):
            return None
        known = self._writers.get((topic, id(schema)))
        if known is None:
            known = self._remember(topic, schema, value)
        _, head, write = known
        return head + write(value)

    def _remember(
        self, topic: str, schema: Schema | None, value: Any
    ) -> tuple[Schema | None, bytes, Write]:
        own, name = self.registered(schema, value)
        subject = self._options.subject(Place(topic, self.is_key), name)
        number, written = self._asked(self._find, subject, own)
        if len(self._writers) >= _REMEMBERED_MAX:
            self._writers.clear()
        known = (schema, frame(number), self._asked(self.writer, schema, written))
        self._writers[topic, id(schema)] = known
        return known

    def _find(self, subject: str, own: RegistrySchema) -> tuple[int, RegistrySchema]:
        return self._registry.schema_to_write(self._options, subject, own)

    def to_connect_data(
        self, topic: str, headers: Headers | None, data: bytes | None
    ) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(None, None)
        number, start = self._asked(unframe, data)
        known = self._readers.get(number)
        if known is None:
            if len(self._readers) >= _REMEMBERED_MAX:
                self._readers.clear()
            registered = self._asked(self._schema, number)
            known = self._readers[number] = self._asked(self.reader, registered)
        schema, read = known
        return SchemaAndValue(schema, read(data, start))

    def _schema(self, number: int | str) -> RegistrySchema:
        return self._registry.schema_to_read(self._options, number, format=self.schema_format)

    def _asked(self, ask: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        try:
            return ask(*arguments, **more)
        except RegistryError as error:
            kind = RetriableError if error.retriable else DataError
            raise kind(f"the schema registry: {error}") from error
        except DeserializationFailed as error:
            raise DataError(str(error)) from None

    def close(self) -> None:
        self._registry.close()
