"""What a user may not see: a broker leaves it out of its answers, without a word.

A plan for "all topics" is wrong if some are hidden: a drained broker keeps their replicas, a group
that moves loses their offsets. These functions are called before such a plan is made. They raise a
KafkaError that names the missing right.

All topics are seen if one of these holds:
1. The user may describe the cluster, and describes each topic that the disks of all brokers have.
2. The user may describe a topic with a name that no rule can know, so a rule for all topics allows
   it. A rule that denies a single topic is not found so.

Of a pattern only the topics count that it may select: those of a disk that match it, and otherwise
a name that begins as all of them do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.client import Admin
    from moldau.operations.offsets import Scope

ANY_NAME: Final = "d41c8a7e0b9f4c52-of-no-rule"
ALL: Final = "*"
_ABSENT: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)
_NAME_MAX: Final = 249
_SPECIAL: Final = frozenset("\\.^$*+?{}[]|()")
_MAYBE_NONE: Final = frozenset("*?{")
_HIDDEN: Final = "what is planned for all topics would miss those that are hidden"
_MAY_BE_HIDDEN: Final = "topics may be hidden, and what is planned for all topics would miss them"
_IDS_MAY_BE_HIDDEN: Final = (
    "transactional ids may be hidden, and their transactions would seem to have no owner"
)


class ExplainedRefusal(KafkaError):
    """A right is missing, and the reason says what that means. The facts have the API and the name
    of the right."""


class HiddenNames(ExplainedRefusal):
    """Names are hidden, or may be."""


class Names(NamedTuple):
    """The topics with names that begin so, or the one of this name."""

    start: str = ""
    is_whole: bool = False

    @classmethod
    def of_regex(cls, pattern: str) -> Names:
        """Return names with all that match a regular expression as a whole. Those of alternatives
        without brackets around them are any names."""
        if "|" in re.sub(r"\([^()]*\)", "", pattern):
            return cls()
        pieces = re.findall(r"\\\W|.", pattern, re.DOTALL)
        start = ""
        for piece, after in zip_longest(pieces, pieces[1:]):
            if piece in _SPECIAL or (len(piece) == 1 and after in _MAYBE_NONE):
                return cls(start)
            start += piece[-1]
        return cls(start, is_whole=True)


async def check_all_visible(admin: Admin) -> None:
    """Raise HiddenNames if the cluster has topics that the user may not see, or may have some."""
    await check_chosen_visible(admin, lambda _: True, [Names()])


async def check_chosen_visible(
    admin: Admin, is_chosen: Callable[[str], bool], names: Iterable[Names]
) -> None:
    """Raise HiddenNames if topics that are chosen are hidden, or may be. `names` have all that may
    be chosen."""
    hidden = await _hidden_on_disks(admin)
    if hidden is not None:
        hidden = [each for each in hidden if is_chosen(each)]
        if hidden:
            raise _hidden_topic(hidden[0] if len(hidden) == 1 else ALL, _HIDDEN)
        return
    for start, is_whole in names:
        asked = start if is_whole else f"{start}{ANY_NAME}"[:_NAME_MAX]
        if asked and await _refused(admin, [asked]):
            raise _hidden_topic(start if is_whole else f"{start}{ALL}", _MAY_BE_HIDDEN)


async def check_visible(admin: Admin, scope: Scope) -> None:
    """Raise a KafkaError if topics of the scope are hidden; an empty scope means all topics. Topics
    that do not exist are no error here."""
    if not scope:
        await check_all_visible(admin)
    for name in await _refused(admin, scope):
        raise _hidden_topic(name, _HIDDEN)


async def check_all_ids_visible(admin: Admin) -> None:
    """Raise HiddenNames if there may be transactional ids that the user may not see."""
    from moldau.client import TransactionAdmin

    found = (await TransactionAdmin(admin).describe([ANY_NAME]))[ANY_NAME]
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if isinstance(found, KafkaError) and found.code is code:
        facts = {"transactional_id": ALL, "api": "DescribeTransactions"}
        raise HiddenNames(code, _IDS_MAY_BE_HIDDEN, **facts)


async def _hidden_on_disks(admin: Admin) -> list[str] | None:
    """Return the hidden topics by the disks of all brokers; None if they do not tell."""
    try:
        cluster = await admin.describe_cluster(include_fenced=True)
        found = await admin.describe_log_dirs()
    except KafkaError:
        return None
    if cluster.fenced or any(each.error is not None for each in found):
        return None
    on_disks = {replica.where.topic for each in found for replica in each.replicas}
    visible = {each.name for each in await admin.list_topics(internal=True)}
    return await _refused(admin, on_disks - visible)


async def _refused(admin: Admin, names: Iterable[str]) -> list[str]:
    """Return those of the topics that the user may not describe. Raise other errors than that, and
    than those of topics that do not or cannot exist."""
    refused = []
    for name, found in (await admin.describe_topics(sorted(names))).items():
        if not isinstance(found, KafkaError):
            continue
        if found.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            refused.append(name)
        elif found.code not in _ABSENT:
            raise found
    return refused


def _hidden_topic(name: str, why: str) -> HiddenNames:
    facts = {"topic": name, "api": "Metadata"}
    return HiddenNames(ErrorCode.TOPIC_AUTHORIZATION_FAILED, why, **facts)
