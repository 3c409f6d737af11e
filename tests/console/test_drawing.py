"""Where boxes stand in a picture, which rates a page has, and what a topology's boxes say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.console.apis.streams import Input, Program, Step, StoreSize, Task, Topology
from moldau.console.pages.drawing import CHARACTERS, HEIGHT, WIDTH, Box, drawn
from moldau.console.pages.streams import EVERY_S, GAP_S, Rates
from moldau.console.pages.topology import AppView, Growth, counts, topics_of
from moldau.diagrams import Arrow


def boxes(names: str) -> list[Box]:
    return [Box(each, "step", each) for each in names]


def columns(names: str, *arrows: str) -> list[str]:
    """The names in each column, from the top."""
    picture = drawn(boxes(names), [(each[0], each[1]) for each in arrows])
    found: dict[int, list[tuple[int, str]]] = {}
    for each in picture.boxes:
        found.setdefault(each.x, []).append((each.y, each.box.key))
    return ["".join(name for _, name in sorted(found[x])) for x in sorted(found)]


def test_few_arrows_cross() -> None:
    assert columns("abxy", "ay", "bx") == ["ab", "yx"]


def test_an_arrow_to_nothing_is_left_out() -> None:
    picture = drawn(boxes("ab"), [("a", "b"), ("a", "b"), ("a", "z")])
    assert len(picture.curves) == 1
    assert drawn([], []).boxes == ()


def test_a_long_title_is_cut_and_told_in_full() -> None:
    box = Box("k", "step", "t" * 99, "under", "live")
    assert (len(box.short), box.text) == (CHARACTERS, f"{'t' * 99}, under, live")


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef"))))
def test_no_two_boxes_overlap(arrows: list[Arrow]) -> None:
    picture = drawn(boxes("abcdef"), arrows)
    places = [(each.x, each.y) for each in picture.boxes]
    assert len(set(places)) == len(places)
    assert all(x + WIDTH < picture.width and y + HEIGHT < picture.height for x, y in places)


def test_a_rate_is_that_between_two_looks() -> None:
    rates = Rates()
    assert rates.of("app", 10.0, {"a": 5}) == {}
    assert rates.of("app", 10.0 + EVERY_S / 2, {"a": 9}) == {}, "too soon for a rate"
    assert rates.of("app", 14.0, {"a": 25, "new": 3}) == {"a": 5.0}
    assert rates.of("app", 14.5, {"a": 99}) == {"a": 5.0}, "the last rates stay until the next"
    assert rates.of("other", 14.5, {"a": 99}) == {}
    assert rates.of("app", 18.0, {"a": 1, "new": 7}) == {"new": 1.0}, "a count that began anew"
    assert rates.of("app", 19.0 + GAP_S, {"a": 2}) == {}, "too long ago for a rate"


def step(name: str, **more: list[str]) -> Step:
    given = {"parents": [], "lookups": [], "reads": [], "writes": [], "stores": [], **more}
    return Step(name=name, kind="kind", text="", **given)


APP = Topology(
    app="app",
    reads=["in", "table"],
    writes=["out"],
    programs=[
        Program(
            index=0,
            reads=["in"],
            writes=["mid"],
            stores=[],
            steps=[step("source", reads=["in"]), step("sink", parents=["source"], writes=["mid"])],
        ),
        Program(
            index=1,
            reads=["mid"],
            writes=["out"],
            stores=["counts"],
            steps=[
                step("source", reads=["mid"]),
                step("count", parents=["source"], stores=["counts"]),
                step("sink", parents=["count"], writes=["out"]),
            ],
        ),
    ],
)


def task(program: int, topic: str, processed: int, **more: object) -> Task:
    given = {"partition": 0, "server": "a:1", "state": "running", **more}
    inputs = [Input(topic=topic, done=processed, lag=4)]
    return Task.model_validate(
        {"program": program, "processed": processed, "inputs": inputs, **given}
    )


def test_a_topology_is_one_picture_with_a_box_for_each_topic_and_step() -> None:
    sizes = [StoreSize(name="counts", rows=7, bytes=100)]
    tasks = [task(0, "in", 10, seconds=0.1), task(1, "mid", 20, stores=sizes, dropped=2)]
    lost = Task(program=1, partition=1, server=None, state=None)
    growth = Growth({"in": 2, "out": 1}, {"in": 50})
    found = counts([*tasks, lost], growth)
    assert found == {
        ("task", "0_0"): 10, ("task", "1_0"): 20, ("done", "in"): 10, ("done", "mid"): 20,
        ("end", "in"): 50,
    }  # fmt: skip
    view = AppView(APP, [*tasks, lost], growth, {("end", "in"): 3.0, ("task", "0_0"): 2.5})
    texts = {each.box.key: each.box.text for each in view.picture().boxes}
    assert texts == {
        "topic in": "in, topic, 2 partitions, 3/s in, lag 4",
        "topic mid": "mid, topic, lag 4",
        "topic out": "out, topic, 1 partition",
        "topic table": "table, topic",
        "step 1 count": "count, kind in sub-topology 1, about 7 rows",
    }
    assert len(view.picture().curves) == 3
    assert topics_of(APP) == ["in", "mid", "out", "table"]
    assert (view.lag, view.rate, view.states) == (8, 2.5, [("no worker tells", 1), ("running", 2)])
    first, second = view.programs()
    assert (first.ms_each, first.rate, second.tasks, second.running, second.dropped) == (
        10.0, 2.5, 2, 1, 2,
    )  # fmt: skip
    members = view.members({"a:1": "too slow"})
    assert [(each.server, each.tasks, each.problem) for each in members] == [
        ("a:1", 2, "too slow"), ("no worker tells", 1, ""),
    ]  # fmt: skip
