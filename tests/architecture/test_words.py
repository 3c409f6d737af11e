"""Text speaks of requests, records and brokers, not of people: STYLE "English".

The entries of [words] in allowed.toml count such words for each folder. They may only shrink.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable

import pytest

from tests.architecture.allowed import Found, check
from tests.architecture.facts import each_file
from tests.architecture.sources import Source, python

PACKAGES = ("platform/", "broker/", "streams/", "connect/", "connectors/")
PEOPLE = re.compile(r"\b(who|whom|whoever|nobody|somebody|anybody|everybody|he|him|his)\b", re.I)
_TEXT = {tokenize.COMMENT, tokenize.STRING}
_FSTRING = getattr(tokenize, "FSTRING_MIDDLE", None)


def people(among: Iterable[Source]) -> Found:
    """How many such words comments and strings have, by folder."""
    among = tuple(among)
    found: Counter[str] = Counter()
    for source, count in zip(among, _count(among), strict=True):
        found[source.path.rpartition("/")[0]] += count
    return {folder: count for folder, count in found.items() if count}


@each_file
def _count(source: Source) -> int:
    """Tokens are slow to make: a file without such a word is done at once."""
    if not source.path.startswith(PACKAGES) or not PEOPLE.search(source.text):
        return 0
    return sum(
        len(PEOPLE.findall(token.string))
        for token in tokenize.generate_tokens(io.StringIO(source.text).readline)
        if token.type in _TEXT or token.type == _FSTRING
    )


def test_text_does_not_speak_of_people() -> None:
    sources = [source for source in python() if source.path.startswith(PACKAGES)]
    assert len(sources) > 1000
    check("words", people(sources))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('"""Refuse who knows another epoch: he does not say."""\n', 2),
        ("# For whoever is next.\n", 1),
        ('raise ValueError(f"nobody has {name}")\n', 1),
        ("NOBODY = nobody = 3  # a request whose header is long\n", 0),
    ],
)
def test_a_planted_word_is_counted(text: str, count: int) -> None:
    found = people([Source("broker/moldau/planted.py", text)])
    assert found == ({"broker/moldau": count} if count else {})
