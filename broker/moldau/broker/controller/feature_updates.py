"""UpdateFeatures: change the finalized levels of the cluster's features (KIP-584, KIP-778).

The update is done as a whole or not at all: one invalid feature rejects all. A level is written
only if every registered broker and controller can run at it. A downgrade must be requested as one,
and only an upgrade raises a level, so `kafka-features downgrade` to a newer release changes
nothing. For `metadata.version` a downgrade must not cross a level at which records changed their
meaning, because written records cannot be changed. `kraft.version` is no record of the metadata:
the shell raises it in the quorum's own log, once everything else about the request is right
(KIP-853).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from moldau.broker.controller.configs import ALL_BROKERS
from moldau.broker.controller.elections import MIN_ISR
from moldau.broker.controller.image import Image
from moldau.broker.controller.levels import (
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    changes_records_between,
    supports_elr,
)
from moldau.broker.controller.outcome import Outcome
from moldau.broker.controller.rules import Rules
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from moldau.protocol.schemas.metadata_log import (
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
)

_RESULTS_UNTIL: Final = 1


CheckLevel: TypeAlias = Callable[[int], object]


class UpgradeType(IntEnum):
    """The kind of an update: whether it may lower a level."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureRequest(NamedTuple):
    """What else decides about a request: its version, as old ones encode downgrades differently,
    the level of the quorum's own protocol, and a check of another level of it, which raises
    KafkaError."""

    version: int
    kraft_version: int = 0
    check_kraft_version: CheckLevel | None = None
    """None: it cannot be changed."""


def update_features(
    image: Image, rules: Rules, request: UpdateFeaturesRequest, asked: FeatureRequest
) -> Outcome[UpdateFeaturesResponse]:
    """Update the levels. kraft.version may be named at its present level, as `kafka-features` does
    with every release."""
    version = asked.version
    named = {each.feature: each for each in request.feature_updates}
    updates = {
        name: each
        for name, each in named.items()
        if (name, each.max_version_level) != (KRAFT_VERSION, asked.kraft_version)
    }
    levels = {**image.features.levels}
    levels.update({each.feature: each.max_version_level for each in updates.values()})
    levels.pop(KRAFT_VERSION, None)
    records: list[MetadataRecord] = []
    try:
        for update in updates.values():
            now = image.features.level_of(update.feature)
            if update.feature == KRAFT_VERSION:
                now = asked.kraft_version
            _check(image, rules, update, _upgrade_type(update, version), now)
            if update.feature == KRAFT_VERSION:
                _check_kraft_version(update, asked)
                continue
            _check_dependencies(update, levels)
            records.extend(_records(image, rules, update))
    except KafkaError as error:
        return Outcome(
            (),
            UpdateFeaturesResponse(
                error_code=error.code,
                error_message=f"no feature was updated: {error.reason}",
            ),
        )
    results = []
    if version <= _RESULTS_UNTIL:
        results = [
            UpdatableFeatureResult(feature=name, error_code=0, error_message=ErrorCode.NONE.name)
            for name in named
        ]
    return Outcome(
        () if request.validate_only else tuple(records),
        UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None, results=results),
    )


def _upgrade_type(update: FeatureUpdateKey, version: int) -> int:
    if version == 0:
        return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    return update.upgrade_type


def _check(
    image: Image, rules: Rules, update: FeatureUpdateKey, upgrade_type: int, now: int
) -> None:
    feature, level = update.feature, update.max_version_level
    if upgrade_type not in tuple(UpgradeType):
        raise _refusal(update, "there is no such type of upgrade")
    if level < 0:
        raise _refusal(update, "levels are not negative")
    supported = rules.supported.get(feature)
    if supported is None:
        raise _refusal(update, "this controller does not know the feature")
    if level not in supported:
        raise _refusal(
            update, f"this controller runs at levels {supported.lowest} to {supported.highest}"
        )
    _check_nodes(image, update)
    if level == now or (level > now and upgrade_type == UpgradeType.UPGRADE):
        return
    if level > now:
        raise _refusal(update, f"a downgrade from {now} cannot raise it: ask for an upgrade")
    if upgrade_type == UpgradeType.UPGRADE:
        raise _refusal(update, "a lower level must be asked for as a safe or unsafe downgrade")
    if feature == METADATA_VERSION:
        if upgrade_type == UpgradeType.UNSAFE_DOWNGRADE:
            raise _refusal(update, "unsafe downgrades of it are not possible")
        if changes_records_between(level, now):
            raise _refusal(update, f"a downgrade from {now} would lose metadata")


def _check_kraft_version(update: FeatureUpdateKey, asked: FeatureRequest) -> None:
    level = update.max_version_level
    if level < asked.kraft_version:
        raise _refusal(update, "it is never lowered, because the log names the voters")
    if asked.check_kraft_version is None:
        raise _refusal(update, "the quorum's own protocol cannot be changed here")
    asked.check_kraft_version(level)


def raised_kraft_version(
    request: UpdateFeaturesRequest, response: UpdateFeaturesResponse, now: int
) -> int | None:
    """Return the level to which the request raises kraft.version; None if it does not, or was
    rejected or only a trial."""
    if response.error_code or request.validate_only:
        return None
    levels = {each.feature: each.max_version_level for each in request.feature_updates}
    level = levels.get(KRAFT_VERSION, now)
    return level if level > now else None


def _check_nodes(image: Image, update: FeatureUpdateKey) -> None:
    nodes = [
        *((f"broker {each}", node.features) for each, node in image.brokers.by_id.items()),
        *(
            (f"controller {each}", node.features)
            for each, node in image.brokers.controllers.items()
        ),
    ]
    for name, features in nodes:
        levels = features.get(update.feature)
        if levels is None and update.max_version_level == 0:
            continue
        if levels is None or update.max_version_level not in levels:
            raise _refusal(update, f"{name} cannot run at it")


def _check_dependencies(update: FeatureUpdateKey, levels: dict[str, int]) -> None:
    metadata_version = levels.get(METADATA_VERSION, 0)
    if levels.get(ELR_VERSION, 0) and not supports_elr(metadata_version):
        raise _refusal(update, f"{ELR_VERSION} needs a newer {METADATA_VERSION}")


def _records(image: Image, rules: Rules, update: FeatureUpdateKey) -> list[MetadataRecord]:
    records: list[MetadataRecord] = [
        FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level)
    ]
    if update.feature != ELR_VERSION:
        return records
    if not update.max_version_level:
        records.append(ClearElrRecord(topic_name=""))
    elif MIN_ISR not in image.configs.of(ALL_BROKERS):
        records.append(min_isr_record(rules.min_isr))
    return records


def min_isr_record(min_isr: int) -> ConfigRecord:
    """Return the record of the cluster's minimum ISR. Eligible leader replicas need it in the log:
    brokers with different settings files would disagree about which replicas are eligible."""
    return ConfigRecord(
        resource_type=ALL_BROKERS.resource_type,
        resource_name=ALL_BROKERS.name,
        name=MIN_ISR,
        value=str(min_isr),
    )


def _refusal(update: FeatureUpdateKey, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"{update.feature} to level {update.max_version_level}: {reason}",
    )
