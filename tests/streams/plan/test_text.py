"""Plans as text and as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from moldau.streams import Streams, tumbling
from moldau.streams.plan.drawing import draw_svg
from moldau.streams.plan.text import explain_text, topology_text


def word_count() -> Streams:
    app = Streams("wc")
    words = app.stream("lines", str).flat_map(str.split).group_by(lambda word: word)
    windowed = words.window(tumbling("1m", grace="5s"), emit="close")
    windowed.count(name="counts").changes().to("out")
    return app


def test_the_topology_names_topics_and_stores() -> None:
    assert topology_text(word_count().plan()) == (
        "app wc\n"
        "  sub-topology 0\n"
        "    reads   lines\n"
        "    writes  wc-counts-repartition\n"
        "  sub-topology 1\n"
        "    reads   wc-counts-repartition\n"
        "    writes  out\n"
        "    store   counts (window, wc-counts-changelog)\n"
        "  topics of its own\n"
        "    wc-counts-repartition\n"
        "    wc-counts-changelog\n"
        "    wc-moldau-topology\n"
    )


def test_the_explanation_has_each_step_under_the_one_before() -> None:
    lines = explain_text(word_count().plan()).splitlines()

    assert lines[0] == "app wc: 2 sub-topologies"
    assert "  lines: source of lines -> (str or bytes, str)" in lines
    assert (
        "    counts: window aggregate in windows (tumbling 1m, grace 5s) emits when a window is "
        "over -> (windowed str, int) [counts]"
    ) in lines
    assert "        to(out): sink to out" in lines
    assert lines[-2].startswith("  makes wc-counts-changelog: partitions 1 cleanup.policy=")


def test_the_picture_has_a_box_for_each_step() -> None:
    plan = word_count().plan()
    app = Streams("join")
    table = app.table("users", str, key=str)
    app.stream("clicks", str, key=str).join(table).to("out")

    for each in (plan, app.plan()):
        root = ET.fromstring(draw_svg(each))  # noqa: S314
        boxes = [box for box in root.iter() if box.tag.endswith("rect")]
        steps = sum(len(program.steps) for program in each.programs)
        assert len(boxes) == steps + len(each.programs)
