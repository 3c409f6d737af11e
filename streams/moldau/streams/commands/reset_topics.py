"""Which topics a reset reads again, deletes and keeps: of an app, or of an application id."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import UsageError
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode
from moldau.operations.hidden import HiddenNames, Names, check_chosen_visible, check_visible
from moldau.streams.plan.topics import TOPOLOGY_SUFFIX

if TYPE_CHECKING:
    from moldau.client import Admin
    from moldau.streams.plan.plan import Plan

NOTHING_LEFT: Final = "{} has nothing to reset: it begins there already"
_MADE: Final = re.compile(
    r"-.+-(?:changelog|repartition|subscription-(?:registration|response)-topic)"
    r"|-KTABLE-FK-JOIN-SUBSCRIPTION-(?:REGISTRATION|RESPONSE)-\d+-topic"
    rf"|{re.escape(TOPOLOGY_SUFFIX)}"
)
"""What follows the app's name in those of its internal topics, of moldau's apps and of Java's."""
_ID: Final = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True)
class AppTopics:
    """The topics of an app, among those that exist."""

    app: str
    read: Sequence[str]
    """Its inputs of which it commits offsets."""
    missing: Sequence[str]
    """Inputs that do not exist."""
    made: Sequence[str]
    """The topics that it has made for itself."""
    own: Collection[str]
    """The names of all topics that it makes, also of those that do not exist."""
    kept: Sequence[str] = ()
    """The topics that it writes to."""
    others: Sequence[str] = ()
    """Topics that begin with its name, but are of another app with a longer name."""


def topics_of_plan(plan: Plan, existing: Collection[str]) -> AppTopics:
    """Return the topics of an app with a known topology."""
    from moldau.streams.plan.description import made_topics
    from moldau.streams.plan.patterns import matches

    by_pattern = matches(plan, existing)
    repartitions = {topic.name for topic in plan.repartitions}
    named = {topic for each in plan.programs for topic in each.inputs} - repartitions
    chosen = {topic for topics in by_pattern.values() for topic in topics}
    wanted = (named - by_pattern.keys()) | chosen
    own = dict.fromkeys(made_topics(plan))
    return AppTopics(
        plan.app,
        sorted(wanted.intersection(existing)),
        sorted(wanted.difference(existing)),
        [each for each in own if each in existing],
        own.keys(),
        sorted(plan.outputs().intersection(existing) - own.keys()),
    )


async def check_visible_to_reset(
    client: Admin, plan: Plan | None, app: str, inputs: Sequence[str], internal: Sequence[str]
) -> None:
    """Raise HiddenNames if topics of the app are hidden, or may be. They are those of its plan, or
    if that is None its inputs and its internal topics; if those are not named, all of its name."""
    if plan is not None:
        await _check_plan_visible(client, plan)
        return
    if named := [*inputs, *internal]:
        await check_visible(client, dict.fromkeys(named))
    if internal:
        return
    try:
        await check_chosen_visible(client, lambda name: is_internal(name, app), [Names(f"{app}-")])
    except HiddenNames as error:
        reason = f"{error.reason}; --internal-topics names those to delete"
        raise HiddenNames(error.code, reason, **error.context) from None


async def _check_plan_visible(client: Admin, plan: Plan) -> None:
    from moldau.streams.plan.description import made_topics
    from moldau.streams.plan.patterns import PREFIX, matches, patterns_of

    patterns = patterns_of(plan)
    if named := {*plan.source_topics(), *made_topics(plan)}.difference(patterns):
        await check_visible(client, dict.fromkeys(named))
    if patterns:

        def is_chosen(name: str) -> bool:
            return any(name in chosen for chosen in matches(plan, [name]).values())

        starts = [Names.of_regex(each.removeprefix(PREFIX)) for each in patterns]
        await check_chosen_visible(client, is_chosen, starts)


def topics_of_id(
    app: str,
    inputs: Sequence[str],
    internal: Sequence[str],
    existing: Collection[str],
    groups: Iterable[str],
) -> AppTopics:
    """Return the topics of an application id, by their names. Of `internal` alone, if some are
    given; else a topic is left out if its name may be one of another app with a longer name.

    Raise UsageError if one of `internal` is no internal topic of the id."""
    check_id(app)
    named = [each for each in sorted(existing) if is_internal(each, app) and each not in inputs]
    foreign = [each for each in internal if not is_internal(each, app) or each in inputs]
    if foreign:
        raise UsageError(
            f"{foreign[0]} is no internal topic of {app}: such as {app}-NAME-changelog"
        )
    apps = {each.removesuffix(TOPOLOGY_SUFFIX) for each in existing if _is_topology(each)}
    longer = [each for each in apps.union(groups) if each.startswith(f"{app}-")]
    others = [] if internal else [each for each in named if _is_of(each, longer)]
    own = [each for each in internal or named if each not in others]
    return AppTopics(
        app,
        sorted(set(inputs).intersection(existing)),
        sorted(set(inputs).difference(existing)),
        [each for each in dict.fromkeys(own) if each in existing],
        own,
        others=others,
    )


def check_id(app: str) -> None:
    """Raise UsageError if the name cannot be one of an app, such as `..`: it names a directory."""
    if not _ID.fullmatch(app) or not app.strip("."):
        raise UsageError(f"{app[:99]!r} is no application id: it has ASCII letters, digits, . _ -")


def is_internal(topic: str, app: str) -> bool:
    """Whether the name is one of a topic that an app of this name makes for itself."""
    return topic.startswith(app) and _MADE.fullmatch(topic, len(app)) is not None


def _is_topology(topic: str) -> bool:
    return topic.endswith(TOPOLOGY_SUFFIX)


def _is_of(topic: str, apps: Iterable[str]) -> bool:
    return any(is_internal(topic, each) for each in apps)


async def delete_topics(client: Admin, topics: Sequence[str]) -> list[str]:
    """Delete topics. Return a line for each that could not be deleted."""
    gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return [
        f"topic {name} is not deleted: {error}"
        for name, error in (await client.delete_topics(topics)).items()
        if error is not None and error.code is not gone
    ]


async def lacked_rights(client: Admin, group: str, made: Sequence[str]) -> list[str]:
    """Return a line for each right that a reset needs and the user lacks: to delete the topics that
    the app makes, its group, or offsets in it. A broker that does not tell is not doubted."""
    from moldau.client import AclOperation

    def lacks(found: Any) -> bool:
        allowed = getattr(found, "authorized_operations", None)
        return allowed is not None and AclOperation.DELETE not in allowed

    groups = await client.describe_groups([group], authorized_operations=True)
    topics = await client.describe_topics(made, authorized_operations=True) if made else {}
    lacking = [f"group:{name}" for name, each in groups.items() if lacks(each)]
    lacking += [f"topic:{name}" for name, each in topics.items() if lacks(each)]
    return [f"the user has no right DELETE on {each}" for each in lacking]
