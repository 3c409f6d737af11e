"""The topology of the example pipeline: it counts words."""

from __future__ import annotations

from dataclasses import dataclass

from moldau.streams import Streams


@dataclass(frozen=True)
class Count:
    word: str
    count: int


def counted(word: str, count: int) -> Count:
    return Count(word, count)


app = Streams("words")
(
    app.stream("lines", str)
    .flat_map(str.split)
    .group_by(lambda word: word)
    .count(name="counts")
    .changes()
    .map_values(counted)
    .to("counts")
)
