"""Creates the plugins of a config: converters, and transforms with their predicates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from moldau.connect.api.connector import Connector
from moldau.connect.api.conversion import Converter, HeaderConverter
from moldau.connect.api.record import ConnectRecord
from moldau.connect.api.transformation import Predicate, Transformation
from moldau.connect.errors import ConnectError
from moldau.connect.plugins.catalogue import Catalogue, PluginKind
from moldau.deferred import dataclass

R = TypeVar("R", bound=ConnectRecord)


@dataclass(frozen=True, slots=True)
class TransformationStage:
    """A transform for the records that its predicate chooses; all others are not changed."""

    alias: str
    transformation: Transformation
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, record: R) -> R | None:
        """Return the changed record, or None if it was dropped."""
        if self.predicate is not None and self.predicate.test(record) is self.negate:
            return record
        return self.transformation.apply(record)

    def close(self) -> None:
        self.transformation.close()
        if self.predicate is not None:
            self.predicate.close()


def with_prefix(props: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the settings that begin with `prefix`, without it."""
    return {
        name.removeprefix(prefix): text for name, text in props.items() if name.startswith(prefix)
    }


def aliases(props: Mapping[str, str | None], name: str) -> Sequence[str]:
    """Return the aliases that `transforms` or `predicates` lists, each once."""
    listed = (alias.strip() for alias in (props.get(name) or "").split(","))
    return list(dict.fromkeys(alias for alias in listed if alias))


def new_connector(catalogue: Catalogue, name: str) -> Connector:
    """Return a connector that is not initialized."""
    connector = catalogue.find(PluginKind.CONNECTOR, name).cls()
    assert isinstance(connector, Connector)
    return connector


def new_converter(
    catalogue: Catalogue, name: str, props: Mapping[str, str], is_key: bool
) -> Converter:
    """Return a configured converter. `props` have no prefix."""
    converter = catalogue.find(PluginKind.CONVERTER, name).cls()
    assert isinstance(converter, Converter)
    converter.configure(props, is_key)
    return converter


def new_header_converter(
    catalogue: Catalogue, name: str, props: Mapping[str, str]
) -> HeaderConverter:
    """Return a configured header converter. `props` have no prefix."""
    converter = catalogue.find(PluginKind.HEADER_CONVERTER, name).cls()
    assert isinstance(converter, HeaderConverter)
    converter.configure(props)
    return converter


def transformation_stages(
    catalogue: Catalogue, props: Mapping[str, str]
) -> list[TransformationStage]:
    """Return the transforms of a connector config, configured, in order."""
    return [_stage(catalogue, props, alias) for alias in aliases(props, "transforms")]


def _stage(catalogue: Catalogue, props: Mapping[str, str], alias: str) -> TransformationStage:
    given = with_prefix(props, f"transforms.{alias}.")
    name = given.pop("type", None)
    if name is None:
        raise ConnectError(f"transforms.{alias}.type is missing: name the transform")
    given.pop("plugin.version", None)
    predicate_alias = given.pop("predicate", None)
    negate = given.pop("negate", "false").strip().lower() == "true"
    transformation = catalogue.find(PluginKind.TRANSFORMATION, name).cls()
    assert isinstance(transformation, Transformation)
    transformation.configure(given)
    if predicate_alias is None:
        return TransformationStage(alias, transformation)
    return TransformationStage(
        alias, transformation, _predicate(catalogue, props, predicate_alias), negate
    )


def _predicate(catalogue: Catalogue, props: Mapping[str, str], alias: str) -> Predicate:
    given = with_prefix(props, f"predicates.{alias}.")
    name = given.pop("type", None)
    if name is None:
        raise ConnectError(f"predicates.{alias}.type is missing: name the predicate")
    given.pop("plugin.version", None)
    predicate = catalogue.find(PluginKind.PREDICATE, name).cls()
    assert isinstance(predicate, Predicate)
    predicate.configure(given)
    return predicate
