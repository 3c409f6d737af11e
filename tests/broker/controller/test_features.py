"""Features move between levels; codes are those that Apache Kafka 4.4.0 gave."""

from __future__ import annotations

import pytest

from moldau.broker.controller.bootstrap import birth_records, bootstrap_records
from moldau.broker.controller.feature_updates import (
    FeatureRequest,
    raised_kraft_version,
    update_features,
)
from moldau.broker.controller.image import Image
from moldau.broker.controller.levels import (
    METADATA_VERSION_NAMES,
    default_levels,
    metadata_version_level,
)
from moldau.errors import ConfigError
from moldau.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.broker.controller.cluster import Cluster

NEW = {
    "metadata.version": 33,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
}


def update(
    cluster: Cluster,
    *updates: tuple[str, int, int],
    version: int = 2,
    validate_only: bool = False,
) -> UpdateFeaturesResponse:
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in updates
        ],
        validate_only=validate_only,
    )
    answer = cluster.ask(request, UpdateFeaturesResponse, version)
    cluster.check_fold()
    return answer


def test_a_new_cluster_has_the_levels_of_4_4() -> None:
    assert Cluster().image.features.levels == NEW


def test_the_birth_is_one_transaction_and_happens_once() -> None:
    cluster = Cluster()
    assert birth_records(cluster.image, cluster.rules, ()) == []
    assert type(cluster.log[0]).__name__ == "BeginTransactionRecord"
    assert type(cluster.log[-1]).__name__ == "EndTransactionRecord"
    half = Image()
    half.replay_all(cluster.log[:-1])
    assert half.features.levels == {}
    assert half.is_in_transaction


@pytest.mark.parametrize(
    ("name", "level", "kind", "code"),
    [
        ("metadata.version", 33, 1, 0),
        ("metadata.version", 34, 1, 95),
        ("metadata.version", 32, 1, 95),
        ("metadata.version", 32, 2, 95),
        ("metadata.version", 32, 3, 95),
        ("metadata.version", 30, 2, 95),
        ("metadata.version", 6, 3, 95),
        ("metadata.version", 0, 3, 95),
        ("metadata.version", 28, 3, 95),
        ("group.version", 0, 1, 95),
        ("group.version", 0, 2, 0),
        ("group.version", 1, 1, 0),
        ("group.version", 2, 1, 95),
        ("group.version", -1, 1, 95),
        ("group.version", 0, 0, 95),
        ("streams.version", 1, 1, 0),
        ("streams.version", 0, 2, 0),
        ("streams.version", 2, 1, 95),
        ("nope", 1, 1, 95),
        ("transaction.version", 1, 2, 0),
        ("kraft.version", 2, 1, 95),
        ("kraft.version", 1, 1, 95),
        ("kraft.version", 0, 1, 0),
        ("kraft.version", 0, 2, 0),
        ("eligible.leader.replicas.version", 0, 2, 0),
        ("share.version", 0, 2, 0),
        ("share.version", 1, 1, 95),
        ("share.version", 1, 2, 0),
        ("share.version", 2, 1, 0),
        ("share.version", 3, 1, 95),
    ],
)
def test_what_kafka_answers_to_one_update(name: str, level: int, kind: int, code: int) -> None:
    cluster = Cluster(1)
    answer = update(cluster, (name, level, kind))
    assert answer.error_code == code
    assert cluster.image.features.level_of(name) == (level if not code else NEW.get(name, 0))


def test_a_release_names_kraft_version_at_its_present_level() -> None:
    """As `kafka-features upgrade --release-version` does: it is no update, and no record."""
    cluster = Cluster(1)
    before = len(cluster.log)
    answer = update(
        cluster,
        ("kraft.version", 0, 1),
        ("group.version", 1, 1),
        ("streams.version", 1, 1),
        version=1,
    )
    assert [(each.feature, each.error_code) for each in answer.results] == [
        ("kraft.version", 0),
        ("group.version", 0),
        ("streams.version", 0),
    ]
    names = {getattr(each, "name", "") for each in cluster.log[before:]}
    assert "streams.version" in names
    assert "kraft.version" not in names


@pytest.mark.parametrize("kind", [2, 3])
def test_a_downgrade_to_a_newer_release_changes_nothing(kind: int) -> None:
    """As `kafka-features downgrade --release-version` with a release above the cluster's."""
    cluster = Cluster(1)
    lowered = ("share.version", "eligible.leader.replicas.version")
    assert update(cluster, *((name, 0, 2) for name in lowered)).error_code == 0
    levels = cluster.image.features.levels
    answer = update(cluster, *((name, level, kind) for name, level in default_levels(33).items()))
    assert answer.error_code == 95
    assert cluster.image.features.levels == levels


@pytest.mark.parametrize(("kind", "code"), [(1, 0), (2, 95), (3, 95)])
def test_only_an_upgrade_raises_kraft_version_which_never_goes_back(kind: int, code: int) -> None:
    cluster = Cluster(1)
    wanted = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=kind)
    request = UpdateFeaturesRequest(feature_updates=[wanted])
    asked = FeatureRequest(2, 0, lambda level: None)
    response = update_features(cluster.image, cluster.rules, request, asked).response
    assert response.error_code == code
    assert raised_kraft_version(request, response, 0) == (None if code else 1)


def test_one_that_cannot_move_stops_the_others() -> None:
    cluster = Cluster(1)
    assert update(cluster, ("group.version", 0, 2), ("nope", 1, 1)).error_code == 95
    assert cluster.image.features.levels == NEW


def test_old_versions_hear_of_each_feature() -> None:
    answer = update(Cluster(1), ("group.version", 1, 1), version=1)
    assert [(each.feature, each.error_code) for each in answer.results] == [("group.version", 0)]
    assert update(Cluster(1), ("group.version", 1, 1)).results == []


def test_validation_alone_changes_nothing() -> None:
    cluster = Cluster(1)
    assert update(cluster, ("group.version", 0, 2), validate_only=True).error_code == 0
    assert cluster.image.features.levels == NEW


def test_names_of_metadata_versions() -> None:
    assert METADATA_VERSION_NAMES[7] == "3.3-IV3"
    assert METADATA_VERSION_NAMES[23] == "4.0-IV1"
    assert METADATA_VERSION_NAMES[30] == "4.3-IV0"
    assert METADATA_VERSION_NAMES[33] == "4.4-IV2"
    assert metadata_version_level("4.0-IV1") == 23
    assert metadata_version_level("4.0") == 25
    assert metadata_version_level("4.4") == 33
    assert metadata_version_level("9.9") is None
    assert default_levels(24) == {
        "metadata.version": 24,
        "group.version": 1,
        "transaction.version": 2,
    }
    assert default_levels(30) == NEW | {"metadata.version": 30, "share.version": 1}
    assert default_levels(31) == NEW | {"metadata.version": 31}


def test_a_level_that_cannot_be_is_refused_before_there_is_a_cluster() -> None:
    with pytest.raises(ConfigError):
        bootstrap_records(levels={"group.version": 9})
    with pytest.raises(ConfigError):
        bootstrap_records(22, {"eligible.leader.replicas.version": 1})


def test_a_given_metadata_version_decides_about_the_other_features() -> None:
    def levels(given: int) -> dict[str, int]:
        records = bootstrap_records(levels={"metadata.version": given})
        return {each.name: each.feature_level for each in records}  # type: ignore[attr-defined]

    assert levels(19) == {"metadata.version": 19}
    assert levels(24) == default_levels(24)
    with pytest.raises(ConfigError):
        bootstrap_records(levels={"metadata.version": 22, "eligible.leader.replicas.version": 1})
