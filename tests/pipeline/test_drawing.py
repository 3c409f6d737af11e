"""A pipeline as text and as a picture."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET

from moldau.pipeline.picture import pipeline_svg, pipeline_text
from tests.pipeline.files import WORDS, pipeline, read

_SVG = "{http://www.w3.org/2000/svg}"


def test_the_text_follows_the_records() -> None:
    assert pipeline_text(pipeline()) == (
        "pipeline words\n"
        "read-lines  source FileStreamSource\n"
        "  -> lines  topic, 2 partitions\n"
        "    -> count-words  app words:app\n"
        "       | source > sink\n"
        "      -> counts  topic, 2 partitions\n"
        "        -> write-counts  sink FileStreamSink\n"
    )


def test_the_text_and_the_picture_follow_the_records_of_a_sink() -> None:
    writing = WORDS.replace(
        "    connector.class: FileStreamSink\n",
        "    connector.class: FileStreamSink\n    errors.deadletterqueue.topic.name: dead\n",
    ).replace("  counts:", "  dead: {partitions: 1}\n  counts:")

    assert pipeline_text(read(writing).pipeline).endswith(
        "        -> write-counts  sink FileStreamSink\n          -> dead  topic, 1 partition\n"
    )
    root = ET.fromstring(pipeline_svg(read(writing).pipeline))  # noqa: S314 - our own
    arrows = [each for each in root.iter(f"{_SVG}path") if each.get("style") is None]
    assert len(arrows) == 5


def test_a_circle_ends() -> None:
    text = WORDS.replace("    app: words:app", "    app: words:app\n  back:\n    app: words:back")

    assert "lines  (above)" in pipeline_text(read(text).pipeline)
    assert "<svg" in pipeline_svg(read(text).pipeline)


def test_the_picture_has_a_box_for_each_part_in_columns() -> None:
    root = ET.fromstring(pipeline_svg(pipeline()))  # noqa: S314 - our own

    boxes = {each.get("class"): int(each.get("x", "")) for each in root.iter(f"{_SVG}rect")}
    texts = [each.text for each in root.iter(f"{_SVG}text")]
    assert boxes["source"] < boxes["app"] < boxes["topic"] < boxes["sink"]
    assert {"read-lines", "lines", "count-words", "counts", "write-counts"} <= set(texts)
    arrows = [each for each in root.iter(f"{_SVG}path") if each.get("style") is None]
    assert len(arrows) == 4


def test_boxes_of_a_column_do_not_overlap() -> None:
    more = "  second:\n    connector.class: FileStreamSink\n    topics: counts\n    file: b\n"
    root = ET.fromstring(pipeline_svg(read(WORDS + more).pipeline))  # noqa: S314 - our own
    columns: dict[str, list[tuple[int, int]]] = {}
    for each in root.iter(f"{_SVG}rect"):
        place = (int(each.get("y", "")), int(each.get("height", "")))
        columns.setdefault(each.get("x", ""), []).append(place)

    for places in columns.values():
        ordered = sorted(places)
        for (y, height), (below, _) in itertools.pairwise(ordered):
            assert y + height < below


def test_what_the_file_says_cannot_break_the_picture() -> None:
    text = WORDS.replace("FileStreamSource", "'<script>'")

    assert not re.search("<script>", pipeline_svg(read(text).pipeline))
