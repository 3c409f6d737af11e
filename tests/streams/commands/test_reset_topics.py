"""The topics of an application id are found by their names; those of other apps are left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from moldau.cli.command import UsageError
from moldau.client import AclOperation, KafkaError
from moldau.errors.codes import ErrorCode
from moldau.streams.commands.reset_topics import (
    check_id,
    is_internal,
    lacked_rights,
    topics_of_id,
)

OWN = {
    "orders-counts-changelog",
    "orders-moldau-topology",
    "orders-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition",
    "orders-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000012-topic",
    "orders-customers-subscription-registration-topic",
}
OTHER = {"orders", "orders-out", "orders2-counts-changelog", "-changelog", "orders-changelog"}


def test_internal_topics_are_known_by_their_names() -> None:
    assert {each for each in OWN | OTHER if is_internal(each, "orders")} == OWN


def test_an_input_is_not_deleted_even_if_it_is_named_like_an_internal_topic() -> None:
    found = topics_of_id("orders", ["orders-counts-changelog", "gone"], [], OWN, [])
    assert set(found.made) == OWN - {"orders-counts-changelog"}
    assert (found.read, found.missing) == (["orders-counts-changelog"], ["gone"])


@pytest.mark.parametrize(
    ("topics", "groups"),
    [
        ({"orders-eu-counts-changelog"}, ["orders-eu"]),
        ({"orders-eu-counts-changelog", "orders-eu-moldau-topology"}, []),
    ],
    ids=["its group", "its topology"],
)
def test_the_topics_of_an_app_with_a_longer_name_are_left(
    topics: set[str], groups: list[str]
) -> None:
    found = topics_of_id("orders", [], [], OWN | topics, groups)
    assert set(found.made) == OWN
    assert found.others == ["orders-eu-counts-changelog"]
    named = topics_of_id("orders", [], ["orders-eu-counts-changelog"], OWN | topics, groups)
    assert named.made == ["orders-eu-counts-changelog"]


@pytest.mark.parametrize("wrong", ["orders-out", "other-counts-changelog", "orders"])
def test_only_internal_topics_can_be_named_for_deletion(wrong: str) -> None:
    with pytest.raises(UsageError, match=f"{wrong} is no internal topic of orders"):
        topics_of_id("orders", [], [wrong], {wrong}, [])


@pytest.mark.parametrize("name", ["..", ".", "a/b", ""])
def test_a_name_that_leads_to_another_directory_is_no_application_id(name: str) -> None:
    with pytest.raises(UsageError, match="is no application id"):
        check_id(name)


class Rights:
    """A cluster that tells what its user may do with the group and with topics."""

    def __init__(self, group: object, topic: object) -> None:
        self.group, self.topic = group, topic

    async def describe_groups(self, groups: Any, *, authorized_operations: bool) -> Any:
        assert authorized_operations
        return {each: _allowed(self.group) for each in groups}

    async def describe_topics(self, names: Any, *, authorized_operations: bool) -> Any:
        assert authorized_operations
        return {each: _allowed(self.topic) for each in names}


def _allowed(operations: object) -> Any:
    if isinstance(operations, KafkaError):
        return operations
    return SimpleNamespace(authorized_operations=operations)


READ_ALONE = frozenset((AclOperation.READ,))
ALL = frozenset((AclOperation.READ, AclOperation.DELETE))


@pytest.mark.parametrize(
    ("group", "topic", "lacking"),
    [
        (ALL, ALL, []),
        (READ_ALONE, ALL, ["group:app"]),
        (READ_ALONE, READ_ALONE, ["group:app", "topic:app-counts-changelog"]),
        (None, None, []),
        (KafkaError(ErrorCode.GROUP_ID_NOT_FOUND), ALL, []),
    ],
    ids=["all", "no group", "nothing", "a broker that does not tell", "there is no group"],
)
async def test_a_reset_names_the_rights_that_it_lacks_before_it_begins(
    group: object, topic: object, lacking: list[str]
) -> None:
    client: Any = Rights(group, topic)
    found = await lacked_rights(client, "app", ["app-counts-changelog"])
    assert found == [f"the user has no right DELETE on {each}" for each in lacking]
