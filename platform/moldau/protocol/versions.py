"""Ranges of versions: "4-18", "0", "12+" or "none", both ends inclusive as everywhere in Kafka."""

from __future__ import annotations

from typing import NamedTuple

NEWEST = 32767


class Versions(NamedTuple):
    """First and last version; empty when `last < first`."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __bool__(self) -> bool:
        return self.first <= self.last

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.last == NEWEST:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    def all(self) -> range:
        """Return every version, oldest first."""
        return range(self.first, self.last + 1)

    def common(self, other: Versions) -> Versions:
        """Return the versions of both ranges; empty if there are none."""
        return Versions(max(self.first, other.first), min(self.last, other.last))


NO_VERSIONS = Versions(0, -1)


def parse_versions(text: str) -> Versions:
    """Return the range of versions in `text`. Raise ValueError if it is none."""
    if text == "none":
        return NO_VERSIONS
    first, dash, last = text.partition("-")
    try:
        if dash:
            versions = Versions(int(first), int(last))
        elif text.endswith("+"):
            versions = Versions(int(text[:-1]), NEWEST)
        else:
            versions = Versions(int(text), int(text))
    except ValueError:
        versions = NO_VERSIONS
    if not versions or versions.first < 0:
        raise ValueError(f"{text!r} is not a range of versions: like '4-18', '0', '12+' or 'none'")
    return versions
