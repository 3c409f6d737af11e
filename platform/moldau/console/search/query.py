"""What is wanted of a topic's messages: the fields of the form above them, as the address has them.

    from=newest&partition=3&where=value.total > 9000&before=0.1204_1.77

`before` and `after` are the edges of a page: an offset for each partition. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Final
from urllib.parse import urlencode

from moldau.console.pages.rendering import BadForm
from moldau.deferred import dataclass
from moldau.link.metadata import Topic

FROMS: Final = ("newest", "oldest", "offset", "time")
_EDGES_MAX: Final = 60_000
"""Characters of an edge: a request's address is not longer."""


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """The fields of the form above the messages, and the edge where the page begins."""

    start: str = "newest"
    at: str = ""
    partition: str = ""
    text: str = ""
    where: str = ""
    before: str = ""
    """The page has the messages before these offsets."""
    after: str = ""
    """The page has the messages from these offsets on."""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> MessageQuery:
        """Return what a request asks for. Raise BadForm."""
        found, problem = cls.read(query)
        if problem:
            raise BadForm(problem)
        return found

    @classmethod
    def read(cls, query: Mapping[str, str]) -> tuple[MessageQuery, str]:
        """Return what a request asks for, and what is wrong with it, or an empty text."""
        found = cls(
            query.get("from", "newest"),
            query.get("at", "").strip(),
            query.get("partition", "").strip(),
            query.get("text", ""),
            query.get("where", "").strip(),
            query.get("before", ""),
            query.get("after", ""),
        )
        return found, found._problem()

    def _problem(self) -> str:
        if self.start not in FROMS:
            return f"from: {', '.join(FROMS)}"
        if self.start == "offset" and not _is_number(self.at):
            return "offset: give a whole number"
        if self.start == "time" and not self.at:
            return "time: give one such as -1h or 2026-11-20T12:00:00Z"
        if self.partition and not _is_number(self.partition):
            return "partition: give a number, or none for all"
        try:
            edge_of(self.before), edge_of(self.after)
        except ValueError:
            return "before, after: they are made by the links to older and newer messages"
        return ""

    @property
    def is_filter(self) -> bool:
        """Whether only some messages are wanted."""
        return bool(self.where or self.text)

    @property
    def is_newest_first(self) -> bool:
        """Whether the newest messages stand above."""
        return self.start == "newest"

    @property
    def is_back(self) -> bool:
        """Whether the page is read from its end back."""
        return bool(self.before) or (self.is_newest_first and not self.after)

    def address(self, **more: str) -> str:
        """Return the query of an address that asks for the same, but for these fields."""
        wanted = replace(self, **more) if more else self
        found = {
            _NAMES.get(each.name, each.name): getattr(wanted, each.name)
            for each in fields(wanted)
            if getattr(wanted, each.name) != each.default
        }
        return urlencode(found)


_NAMES: Final = {"start": "from"}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20


def edge_of(text: str) -> dict[int, int]:
    """Return the offsets of an edge. Raise ValueError."""
    if not text:
        return {}
    if len(text) > _EDGES_MAX:
        raise ValueError("it is too long")
    found = {}
    for each in text.split("_"):
        partition, dot, offset = each.partition(".")
        if not dot or not _is_number(partition) or not _is_number(offset):
            raise ValueError(f"{each} is no edge")
        found[int(partition)] = int(offset)
    return found


def edge_text(offsets: Mapping[int, int]) -> str:
    """Return the text of an edge."""
    return "_".join(f"{partition}.{offset}" for partition, offset in sorted(offsets.items()))


def chosen(indexes: Iterable[int], partition: str) -> list[int]:
    """Return the partitions to read. Raise BadForm if there is no such one."""
    known = list(indexes)
    if not partition:
        return known
    if int(partition) not in known:
        raise BadForm(f"partition: the topic has {len(known)}, from 0 to {len(known) - 1}")
    return [int(partition)]


def readable(topic: Topic, partition: str) -> tuple[list[int], list[int]]:
    """Return the partitions to read if all are wanted, and those that are left out as they have no
    leader. One that is named is read in any case, so that the failure tells why it cannot be."""
    known = [each.index for each in topic.partitions]
    gone = [each.index for each in topic.partitions if each.leader < 0 and not partition]
    return [each for each in known if each not in gone], gone
