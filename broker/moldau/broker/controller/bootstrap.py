"""The first records of a cluster: its feature levels, and the records that `storage format` wrote.

Invariant: they enter the log as one metadata transaction in one batch, so a cluster is never half
initialized. They are appended only if the log has no metadata at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moldau.broker.controller.feature_updates import min_isr_record
from moldau.broker.controller.image import Image
from moldau.broker.controller.levels import (
    ELR_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_NEWEST,
    SUPPORTED,
    default_levels,
    supports_elr,
    supports_scram,
)
from moldau.broker.controller.rules import Rules
from moldau.errors import ConfigError
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.schemas.metadata_log import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    UserScramCredentialRecord,
)

_TRANSACTION: Final = "Bootstrap records"


def bootstrap_records(
    metadata_version: int = METADATA_VERSION_NEWEST,
    levels: Mapping[str, int] | None = None,
    credentials: Sequence[UserScramCredentialRecord] = (),
) -> list[MetadataRecord]:
    """Return the records of a new cluster. `levels` overrides the defaults of the metadata.version;
    one of metadata.version in it decides about the defaults, as in Kafka.

    Raise ConfigError, which names the level, if a level is not possible.
    """
    given = dict(levels or {})
    metadata_version = given.get(METADATA_VERSION, metadata_version)
    wanted = default_levels(metadata_version) | given
    for name, level in wanted.items():
        supported = SUPPORTED.get(name)
        if supported is None or level not in supported:
            allowed = "no level" if supported is None else f"{supported[0]} to {supported[1]}"
            raise ConfigError(
                "a feature cannot start at that level", feature=name, level=level, allowed=allowed
            )
    if wanted.get(ELR_VERSION) and not supports_elr(metadata_version):
        raise ConfigError(f"{ELR_VERSION} needs a newer {METADATA_VERSION}", level=metadata_version)
    if credentials and not supports_scram(metadata_version):
        raise ConfigError(f"SCRAM users need a newer {METADATA_VERSION}", level=metadata_version)
    names = sorted(wanted, key=lambda name: (name != METADATA_VERSION, name))
    return [
        *(
            FeatureLevelRecord(name=name, feature_level=wanted[name])
            for name in names
            if wanted[name]
        ),
        *credentials,
    ]


def birth_records(
    image: Image, rules: Rules, given: Sequence[MetadataRecord]
) -> list[MetadataRecord]:
    """Return the records that a controller appends to an empty log; an empty list for a log with
    records.

    `given` are the records of the bootstrap file. Without them the newest defaults are used.
    """
    if image != Image():
        return []
    records = list(given) or bootstrap_records()
    has_elr = any(
        isinstance(each, FeatureLevelRecord) and each.name == ELR_VERSION and each.feature_level
        for each in records
    )
    has_min_isr = any(
        isinstance(each, ConfigRecord)
        and each.resource_name == ""
        and each.name == "min.insync.replicas"
        for each in records
    )
    if has_elr and not has_min_isr:
        records.append(min_isr_record(rules.min_isr))
    return [BeginTransactionRecord(name=_TRANSACTION), *records, EndTransactionRecord()]
