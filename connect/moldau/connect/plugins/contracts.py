"""The contracts of Connect's plugin groups: a class of the right base, with documented settings."""

from __future__ import annotations

from functools import partial
from typing import Final

from moldau.plugins.contracts import Contract, ContractBroken, check_class


def _check(kind: str, loaded: object) -> None:
    """Check the base class, as the catalogue does, and that every setting has a documentation."""
    from moldau.connect.plugins.catalogue import PluginKind

    cls = check_class(loaded, PluginKind[kind].base)
    model = cls.config_model  # type: ignore[attr-defined] # of every base
    undocumented = [each.name for each in model.settings() if not each.doc]
    if undocumented:
        raise ContractBroken("settings without a text", name=cls.__name__, settings=undocumented)


_CONTENTS: Final = {
    "CONNECTOR": ("moldau.connectors", "Connect source and sink connectors"),
    "TRANSFORMATION": ("moldau.transforms", "Connect single message transforms"),
    "PREDICATE": (
        "moldau.predicates",
        "Connect predicates, which choose the records of a transform",
    ),
    "CONVERTER": ("moldau.converters", "Connect converters of keys and values"),
    "HEADER_CONVERTER": ("moldau.header_converters", "Connect converters of headers"),
    "CONFIG_PROVIDER": ("moldau.config_providers", "sources of referenced settings and secrets"),
}

CONTRACTS: Final = tuple(
    Contract(group, contents, partial(_check, kind))
    for kind, (group, contents) in _CONTENTS.items()
)
