"""Each argument of each method of an admin: what it does not take is refused in words that name it.

The table has every one of them: who adds a method or an argument says here what it does not take.
"""

from __future__ import annotations

import inspect
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest

from moldau.client import Admin, NewTopic, OffsetAndMetadata, Resource, ResourceType, TopicPartition
from moldau.client.admin.cluster import Downgrade
from moldau.client.base.offsets import LATEST
from moldau.errors import ConfigError
from moldau.protocol.election import Election
from moldau.runtime import Runtime
from tests.client.world import BOOTSTRAP, ClientWorld

T0 = TopicPartition("t", 0)
TOPIC = Resource(ResourceType.TOPIC, "t")
LONE: Final = "a\udc80"
LONG: Final = "x" * 2**15
NOT_STARTED: Final = {"start", "aclose"}


@dataclass(frozen=True)
class Argument:
    """What it takes, what it does not take, and what each refusal says."""

    good: object
    words: str
    bad: tuple[Any, ...]


def name(what: str) -> Argument:
    return Argument("t", f"a {what}'s name is ", (None, 3, b"t", ["t"], LONE, LONG))


def names(what: str) -> Argument:
    bad = ("ab", None, 3, [None], [3], [b"t"], [LONE], [LONG])
    return Argument(["t"], f"{what}s are given as a list|a {what}'s name is ", bad)


def optional_names(what: str) -> Argument:
    """None says that none are chosen."""
    given = names(what)
    return Argument(given.good, given.words, tuple(each for each in given.bad if each is not None))


def flag(name: str) -> Argument:
    return Argument(False, f"^{name} is True or False, not ", (None, 0, 1, "no", b"", []))


def whole(words: str, bits: int, *more: object) -> Argument:
    return Argument(1, words, ("1", 1.0, True, 2 ** (bits - 1), *more))


def text(name: str) -> Argument:
    return Argument("x", f"{name} is ", (None, 3, b"x", LONE, LONG))


BROKER = whole("a broker's id is ", 32, -1, -2, 300.0, b"1", [1])
NO_BROKERS: Final = (3, "1", ["1"], [1.0], [True], [None], [-1], [-2], [2**31])
VOTER = Argument(1, BROKER.words, (*BROKER.bad, None))
DIRECTORY = Argument(
    bytes(15) + b"\1", "a directory's id is 16 bytes", ("abc", None, 3, uuid.UUID(int=1), b"short")
)
LISTENERS = Argument(
    {"CONTROLLER": ("h", 9093)},
    "listeners with their values are given as a dict|a listener's name is |"
    "the (address|host|port) of L is ",
    (3, "a", [], None, {1: ("h", 1)}, {"L": "h:1"}, {"L": ("h",)}, {"L": (1, 1)}, {"L": ("h", 0)}),
)
BROKERS = Argument([1], "brokers are given as a list|a broker's id is ", NO_BROKERS)
NO_PARTITIONS: Final = (
    "t",
    3,
    [3],
    ["t-0"],
    [("t", "0")],
    [("t", 2**31)],
    [(LONE, 0)],
    [(None, 0)],
)
PARTITIONS = Argument(
    [T0], "partitions are given as a list|a partition|a topic's name", (*NO_PARTITIONS, None)
)
ANY_PARTITIONS = Argument([T0], PARTITIONS.words, NO_PARTITIONS)
NO_MAPPINGS: Final = (None, 3, "t", [T0], {"t-0": 1}, {("t", -1): 1}, {(LONE, 0): 1})
IDS = Argument(
    [bytes(15) + b"\1"],
    "a topic's id is 16 bytes|topic ids are given as a list",
    ("abc", None, 3, ["abc"], [uuid.UUID(int=1)], [b"short"], [None], [bytearray(16)]),
)
SETTINGS = Argument(
    {"a": "1"},
    "settings with their values are given as a dict|a setting's name is |the value of a is ",
    (3, "a", "", 0, [], ["a"], {1: "1"}, {LONE: "1"}, {"a": 1}, {"a": None}, {"a": LONE}),
)
RESOURCE = Argument(
    TOPIC,
    "what has settings is a Resource|a resource's type is |a resource's name is ",
    (
        *(None, "t", ("topic", "t"), Resource(2, "t"), Resource("topic", "t")),  # type: ignore[arg-type]
        *(Resource(ResourceType.TOPIC, 3), Resource(ResourceType.TOPIC, LONE)),  # type: ignore[arg-type]
    ),
)
ASSIGNMENTS: Final = (3, "ab", [1], [["x"]], [[-1]], [[2**31]], [[1.0]], [None])
PLACED = "assignments are given as a list|brokers are given as a list|a broker in assignments"


def new(**given: Any) -> NewTopic:
    return NewTopic(**{"name": "t", **given})


def stored(**given: Any) -> OffsetAndMetadata:
    return OffsetAndMetadata(**{"offset": 1, **given})


NEW_TOPICS: Final = (
    *(None, "t", 3, {"name": "t"}, new(name=None), new(name=LONE), new(name=LONG)),
    *(new(partitions=each) for each in ("4", 4.0, None, True, 2**31, -2)),
    *(new(replication_factor=each) for each in ("4", 4.0, None, True, 2**15, -2)),
    *(new(configs=each) for each in (None, ["a"], {"a": 1}, {"a": LONE}, {1: "1"})),
    *(new(assignments=each) for each in (*ASSIGNMENTS, {0: 1}, {"0": [1]}, {-1: [1]})),
)
NEW_TOPIC_WORDS: Final = (
    "is a NewTopic|a topic's name is |^partitions is |^replication_factor is |a partition's number|"
    f"{SETTINGS.words}|{PLACED}"
)

METHODS: Final[Mapping[str, Mapping[str, Argument]]] = {
    "alter_configs": {
        "resource": RESOURCE,
        "set_to": SETTINGS,
        "unset": names("setting"),
        "append": SETTINGS,
        "subtract": SETTINGS,
        "validate_only": flag("validate_only"),
    },
    "alter_group_offsets": {
        "group": name("group"),
        "offsets": Argument(
            {T0: 1},
            "partitions with their values|a partition|an offset to commit|a topic's name|epoch",
            (
                *NO_MAPPINGS,
                *({T0: each} for each in ("1", 1.0, True, None, -1, 2**63)),
                *({T0: stored(metadata=each)} for each in (None, 3, LONE, LONG)),
                *({T0: stored(leader_epoch=each)} for each in ("1", 2**31)),
            ),
        ),
    },
    "alter_partition_reassignments": {
        "replicas": Argument(
            {T0: [1]},
            "partitions with their values|a partition|a topic's name|" + BROKERS.words,
            (*NO_MAPPINGS, *({T0: each} for each in NO_BROKERS)),
        )
    },
    "alter_replica_log_dirs": {
        "directories": Argument(
            {(T0, 1): "/data"},
            "replicas with their directories|a replica|a partition|a topic's name|a broker's id is",
            (
                *(None, 3, [(T0, 1)], {T0: "/data"}, {("t", 1): "/data"}, {(T0, 1, 1): "/data"}),
                *({(T0, each): "/data"} for each in ("1", 1.0, -1, -2, 2**31)),
                *({(T0, 1): each} for each in (None, 3, LONE, LONG)),
            ),
        )
    },
    "create_partitions": {
        "topic": name("topic"),
        "count": whole("^count is ", 32, None, -2),
        "assignments": Argument([[1]], PLACED, ASSIGNMENTS),
        "validate_only": flag("validate_only"),
    },
    "create_topic": {"topic": Argument(new(), NEW_TOPIC_WORDS, NEW_TOPICS)},
    "create_topics": {
        "topics": Argument(
            [new()],
            f"new topics are given as a list|is to be made twice|{NEW_TOPIC_WORDS}",
            (None, "ab", 3, [new(), new()], *([each] for each in NEW_TOPICS)),
        ),
        "validate_only": flag("validate_only"),
    },
    "delete_group": {"group": name("group")},
    "delete_group_offsets": {"group": name("group"), "partitions": PARTITIONS},
    "delete_groups": {"groups": names("group")},
    "delete_records": {
        "before": Argument(
            {T0: 1},
            "partitions with their values|a partition|a topic's name|an offset to delete up to is ",
            (*NO_MAPPINGS, *({T0: each} for each in ("1", 1.0, True, None, -2, 2**63))),
        )
    },
    "delete_topic": {"name": name("topic")},
    "delete_topics": {"names": names("topic")},
    "delete_topics_by_id": {"ids": IDS},
    "describe_api_versions": {"broker": BROKER},
    "describe_cluster": {
        "include_fenced": flag("include_fenced"),
        "authorized_operations": flag("authorized_operations"),
    },
    "describe_configs": {
        "resource": RESOURCE,
        "names": optional_names("setting"),
        "documentation": flag("documentation"),
    },
    "describe_features": {},
    "describe_group": {
        "group": name("group"),
        "authorized_operations": flag("authorized_operations"),
    },
    "describe_groups": {
        "groups": names("group"),
        "authorized_operations": flag("authorized_operations"),
    },
    "describe_log_dirs": {"brokers": BROKERS},
    "describe_producers": {
        "where": Argument(
            T0,
            PARTITIONS.words,
            (None, "t", 3, ("t",), ("t", "0"), ("t", -1), (None, 0), (LONE, 0)),
        )
    },
    "describe_quorum": {},
    "describe_topics": {
        "names": names("topic"),
        "authorized_operations": flag("authorized_operations"),
    },
    "describe_topics_by_id": {"ids": IDS, "authorized_operations": flag("authorized_operations")},
    "elect_leaders": {
        "partitions": ANY_PARTITIONS,
        "election": Argument(
            Election.PREFERRED,
            "^election is a Election, not .*: one of PREFERRED, UNCLEAN",
            (None, "unclean", 0, 1, 7, 300, Downgrade.SAFE),
        ),
    },
    "eligible_replicas": {"topics": name("topic")},
    "group_offsets": {
        "group": name("group"),
        "partitions": ANY_PARTITIONS,
        "require_stable": flag("require_stable"),
    },
    "group_progress": {"group": name("group")},
    "groups_progress": {"groups": names("group")},
    "led_partitions": {"chosen": PARTITIONS},
    "list_config_resources": {
        "types": Argument(
            [ResourceType.TOPIC],
            "types are given as a list|a resource's type is a ResourceType, not ",
            (None, "topic", 2, [2], ["topic"], [None]),
        )
    },
    "list_groups": {
        "states": Argument(
            ["Stable"],
            "states are given as a list|a state's name is |is no state of a group",
            (None, "Stable", 3, [3], ["gone"], [None]),
        ),
        "types": Argument(
            ["classic"],
            "types are given as a list|a type's name is |is no type of a group",
            (None, "classic", 3, [3], ["gone"], [None]),
        ),
    },
    "list_offsets": {
        "wanted": Argument(
            {T0: LATEST},
            "partitions with their values|a partition|a topic's name|the timestamp for t-0 is ",
            (*NO_MAPPINGS, *({T0: each} for each in ("1", 1.0, True, None, 2**63))),
        ),
        "is_committed": flag("is_committed"),
    },
    "list_partition_reassignments": {"partitions": ANY_PARTITIONS},
    "list_topics": {"internal": flag("internal")},
    "partitions": {"topics": name("topic")},
    "remove_all_members": {"group": name("group"), "reason": text("reason")},
    "remove_members": {
        "group": name("group"),
        "instance_ids": names("static member"),
        "member_ids": names("member"),
        "reason": text("reason"),
    },
    "add_voter": {"node": VOTER, "directory_id": DIRECTORY, "listeners": LISTENERS},
    "remove_voter": {"node": VOTER, "directory_id": DIRECTORY},
    "supported_features": {"broker": BROKER},
    "unregister_broker": {"broker": Argument(1, BROKER.words, (*BROKER.bad, None))},
    "unregister_controller": {"controller": VOTER},
    "update_features": {
        "levels": Argument(
            {"x": 1},
            "features with their values are given as a dict|a feature's name is |"
            "a feature's level is ",
            (
                *(None, "x", 3, ["x"], {1: 1}, {LONE: 1}),
                *({"x": each} for each in ("1", 1.0, None, True, -1, 2**15, 2**20)),
            ),
        ),
        "downgrade": Argument(
            None,
            "^downgrade is a Downgrade, not .*: one of SAFE, UNSAFE",
            ("SAFE", 0, 1, 2, 3, True, Election.UNCLEAN),
        ),
        "dry_run": flag("dry_run"),
    },
}
EACH: Final = [(method, argument) for method, its in METHODS.items() for argument in its]


def _public() -> dict[str, dict[str, inspect.Parameter]]:
    """All that waits for the cluster, with its parameters."""
    methods = {
        name: getattr(Admin, name)
        for name in dir(Admin)
        if not name.startswith("_") and name not in NOT_STARTED
    }
    return {
        name: dict(inspect.signature(method).parameters)
        for name, method in methods.items()
        if inspect.iscoroutinefunction(method)
    }


def _call(admin: Admin, method: str, given: Mapping[str, Any]) -> Any:
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, parameter in _public()[method].items():
        if name == "self" or name not in given:
            continue
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            positional.append(given[name])
        else:
            named[name] = given[name]
    return getattr(admin, method)(*positional, **named)


def _run(main: Any) -> list[Any]:
    """With an admin; the requests that it made."""

    async def whole(runtime: Runtime) -> None:
        async with Admin(bootstrap_servers=BOOTSTRAP, runtime=runtime) as admin:
            world.cluster.requests.clear()
            await main(admin)

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(whole)
    return world.cluster.requests


def test_the_table_has_every_argument_of_every_method() -> None:
    arguments = {name: {*parameters} - {"self"} for name, parameters in _public().items()}
    assert {name: {*its} for name, its in METHODS.items()} == arguments


@pytest.mark.parametrize(("method", "argument"), EACH)
def test_what_an_argument_does_not_take_is_refused_by_its_name(method: str, argument: str) -> None:
    its = METHODS[method]
    given = {name: each.good for name, each in its.items()}

    async def main(admin: Admin) -> None:
        for bad in its[argument].bad:
            with pytest.raises((TypeError, ValueError)) as caught:
                await _call(admin, method, {**given, argument: bad})
            assert re.search(its[argument].words, str(caught.value)), bad
            assert not isinstance(caught.value, UnicodeError), bad

    assert _run(main) == []


@pytest.mark.parametrize("name", ["-1", "-2", " 1", "1_0", "one"])
@pytest.mark.parametrize("kind", [ResourceType.BROKER, ResourceType.BROKER_LOGGER])
def test_a_broker_that_has_settings_goes_by_its_number(name: str, kind: ResourceType) -> None:
    """Those below 0 would be another broker's."""
    resource = Resource(kind, name)

    async def main(admin: Admin) -> None:
        for call in (admin.describe_configs(resource), admin.alter_configs(resource)):
            with pytest.raises(ConfigError, match="a broker goes by its number"):
                await call

    assert _run(main) == []
