"""Scripts that are made from seeds: topologies of each family with inputs by chance.

Times mostly go on, with ties, records out of order and late ones, and now and then a jump. Keys and
values may be null. The same seed makes the same script for ever, as Kafka's answers are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.streams.kafka.language import Lines, Script

Make = Callable[[Random], tuple[Lines, Lines]]
# How many scripts of each family, and what makes one.
Families = dict[str, tuple[int, Make]]

DAY = 86_400_000
KEYS, VALUES = "aab", "1234567x"


def inputs(
    chance: Random,
    topics: list[str],
    *,
    count: int = 18,
    letters: tuple[str, str] = (KEYS, VALUES),
    nulls: float = 0.1,
    late: int = 20,
) -> Lines:
    """Records of some topics with keys and values of `letters`, at most `late` out of order."""
    lines = []
    time = chance.choice([0, 3, 20])
    for _ in range(count):
        time += chance.choice([0, 0, 1, 1, 2, 3, 5, 8, 30] if chance.random() < 0.8 else [0])
        at = max(0, time - min(late, chance.choice([0, 0, 0, 0, 1, 2, 4, 9, 20])))
        key = "null" if chance.random() < nulls / 2 else chance.choice(letters[0])
        value = "null" if chance.random() < nulls else chance.choice(letters[1])
        header = " +h" if chance.random() < 0.1 else ""
        lines.append(f"{chance.choice(topics)} {key} {value} @{at}{header}")
    return tuple(lines)


def _grace(chance: Random) -> str:
    return f"grace {chance.choice([0, 0, 2, 5, 15])}"


def _of_windows(chance: Random, windows: str) -> Lines:
    """Into sliding windows nothing comes late, and no aggregate is null: there the two differ."""
    if not windows.startswith("sliding"):
        return inputs(chance, ["in"])
    grace = int(windows.split("grace ")[1].split(" ")[0])
    return inputs(chance, ["in"], letters=(KEYS, "1234567"), late=grace)


def _fold(chance: Random) -> str:
    return chance.choice(["count", "reduce", "aggregate", "aggregate"])


def _window(chance: Random, kind: str) -> str:
    size = chance.choice([1, 4, 6, 10])
    advance = max(1, size // chance.choice([2, 3]))
    first = {
        "tumbling": f"tumbling {size}",
        "hopping": f"hopping {size} {advance}",
        "sliding": f"sliding {size}",
        "session": f"session {size}",
    }
    return f"{first[kind]} {_grace(chance)}"


def _windowed(kind: str) -> Make:
    def make(chance: Random) -> tuple[Lines, Lines]:
        windows = _window(chance, kind)
        topology = (f"stream in | group | {windows} | {_fold(chance)} | to out",)
        return topology, _of_windows(chance, windows)

    return make


def _closed(kind: str) -> Make:
    """With a retention of a day Kafka loses no windows; of sessions it would change the meaning."""

    def make(chance: Random) -> tuple[Lines, Lines]:
        retain = "" if kind == "session" else f" retain {DAY}"
        windows = f"{_window(chance, kind)} close{retain}"
        topology = (f"stream in | group | {windows} | {_fold(chance)} | to out",)
        return topology, _of_windows(chance, windows)

    return make


def _unlimited(chance: Random) -> tuple[Lines, Lines]:
    start = chance.choice([0, 10, 30])
    topology = (f"stream in | group | unlimited {start} | {_fold(chance)} | to out",)
    return topology, inputs(chance, ["in"])


def _suppressed(kind: str) -> Make:
    def make(chance: Random) -> tuple[Lines, Lines]:
        step = chance.choice(
            [
                "close",
                "close",
                "close",
                "time 5",
                "time 12",
                "time 8 records 1",
                "time 20 records 2",
            ]
        )
        fold = _fold(chance)
        windows = _window(chance, kind)
        topology = (f"stream in | group | {windows} | {fold} | suppress {step} | to out",)
        return topology, _of_windows(chance, windows)

    return make


def _suppressed_table(chance: Random) -> tuple[Lines, Lines]:
    limit = chance.choice([0, 3, 10])
    records = chance.choice(["", " records 1", " records 2"])
    source = chance.choice(["table in", "stream in | group | count", "stream in | to-table"])
    return (f"{source} | suppress time {limit}{records} | to out",), inputs(chance, ["in"])


def _suppressed_join(kind: str) -> Make:
    """Either side of a join is suppressed for a time, or both."""

    def make(chance: Random) -> tuple[Lines, Lines]:
        of_stream = "lookup" in kind
        held = [f" | suppress time {chance.choice([0, 3, 10])}", ""]
        chance.shuffle(held)
        if of_stream or chance.random() < 0.3:
            held = [held[0] or held[1]] * 2
        on = " first" if kind.startswith("fk") else ""
        left = "left = stream left" if of_stream else f"left = table left{held[0]}"
        lines = (left, f"right = table right{held[1]}", f"left | {kind} right{on} | to out")
        keys = "ab1" if on else "aab"
        return lines, inputs(chance, ["left", "right"], letters=(keys, "ab1"), nulls=0.2, count=24)

    return make


def _folded(chance: Random) -> tuple[Lines, Lines]:
    grouped = chance.choice(["group", "group-by first", "select-key last | group"])
    return (f"stream in | {grouped} | {_fold(chance)} | to out",), inputs(chance, ["in"])


def _stream_join(kind: str) -> Make:
    def make(chance: Random) -> tuple[Lines, Lines]:
        before, after = chance.choice([(5, 5), (0, 0), (0, 6), (7, 0), (-2, 6), (9, -3), (3, 8)])
        rekeyed = chance.choice(["", "", "", " | select-key last"])
        lines = (
            f"left = stream left{rekeyed}",
            "right = stream right",
            f"left | {kind} right before {before} after {after} {_grace(chance)} | to out",
        )
        keys = "4567" if rekeyed else "aab"
        return lines, inputs(chance, ["left", "right"], letters=(keys, "4567"), count=24)

    return make


def _lookup(kind: str, *, versioned: bool = False) -> Make:
    def make(chance: Random) -> tuple[Lines, Lines]:
        history = chance.choice([5, 20, 1000])
        grace = chance.choice([None, 0, 3, 10]) if versioned else None
        if grace is not None and grace > history:
            grace = history
        lines = (
            f"right = table right{f' versioned {history}' if versioned else ''}",
            f"stream left | {kind} right{'' if grace is None else f' grace {grace}'} | to out",
        )
        keys = ["left", "right"]
        # A null key in a left join with grace makes Kafka 4.3.1 fail.
        return lines, inputs(chance, keys, count=24, nulls=0 if grace is not None else 0.12)

    return make


def _versioned_lookup(kind: str) -> Make:
    return _lookup(kind, versioned=True)


def _global_lookup(kind: str) -> Make:
    def make(chance: Random) -> tuple[Lines, Lines]:
        key = chance.choice(["key", "last", "null-x"])
        lines = ("right = global right", f"stream left | {kind}-global right {key} | to out")
        return lines, inputs(chance, ["left", "right"], letters=("ab12", "ab12x"), count=24)

    return make


def _table_join(kind: str) -> Make:
    def make(chance: Random) -> tuple[Lines, Lines]:
        left = chance.choice(
            ["", "", " | filter low", " | map-values null-x", " | map-values plus-null"]
        )
        after = chance.choice(["", "", "", " | filter has-x", " | map-values plus"])
        lines = (
            f"left = table left{left}",
            "right = table right",
            f"left | {kind} right{after} | to out",
        )
        return lines, inputs(
            chance, ["left", "right"], letters=(KEYS, "12x9n"), nulls=0.25, count=24
        )

    return make


def _foreign_key(kind: str) -> Make:
    def make(chance: Random) -> tuple[Lines, Lines]:
        on = chance.choice(["first", "last", "null-x"])
        lines = ("right = table right", f"table left | {kind} right {on} | to out")
        found = []
        for line in inputs(chance, ["left", "right"], letters=("ab1", "ab1x"), nulls=0.2, count=24):
            topic, key, value, *rest = line.split(" ")
            if topic == "left" and value != "null" and on != "null-x":
                value += chance.choice("ab1")
            found.append(" ".join([topic, key, value, *rest]))
        return lines, tuple(found)

    return make


def _regrouped(chance: Random) -> tuple[Lines, Lines]:
    fold = chance.choice(["count", "reduce", "aggregate"])
    group = chance.choice(["first", "key", "null-x"])
    steps = chance.choice(["", " | filter low", " | map-values null-x"])
    return (
        (f"table in{steps} | group-by {group} | {fold} | to out",),
        inputs(chance, ["in"], letters=(KEYS, "12346x"), nulls=0.2),
    )


def _table(chance: Random) -> tuple[Lines, Lines]:
    source = chance.choice(["table in", "stream in | to-table", "stream in | group | reduce"])
    steps = ["filter low", "filter-not has-x", "map-values plus", "map-values null-x"]
    chosen = chance.sample([*steps, "map-values plus-null"], chance.choice([1, 2, 3]))
    return (" | ".join([source, *chosen, "to out"]),), inputs(chance, ["in"], nulls=0.2)


def _versioned(chance: Random) -> tuple[Lines, Lines]:
    history = chance.choice([3, 10, 50])
    step = chance.choice(["filter low", "map-values plus", "group-by first | aggregate"])
    return (f"table in versioned {history} | {step} | to out",), inputs(chance, ["in"], nulls=0.2)


def _versioned_join(kind: str) -> Make:
    def make(chance: Random) -> tuple[Lines, Lines]:
        history = [f" versioned {chance.choice([3, 10, 50])}", chance.choice(["", " versioned 9"])]
        chance.shuffle(history)
        on = " first" if kind.startswith("fk") else ""
        # A foreign-key join writes rows of the left table, for which a mapped one has no serde.
        step = chance.choice(["", "", " | filter low", "" if on else " | map-values plus"])
        lines = (
            f"left = table left{history[0]}{step}",
            f"right = table right{history[1]}",
            f"left | {kind} right{on} | to out",
        )
        keys = "ab1" if on else "aab"
        return lines, inputs(chance, ["left", "right"], letters=(keys, "ab1"), nulls=0.2, count=24)

    return make


def _regrouped_windows(chance: Random) -> tuple[Lines, Lines]:
    windows = _window(chance, chance.choice(["tumbling", "hopping"]))
    step = chance.choice(["filter low", "group-by last | count", "map-values plus"])
    topology = (f"stream in | group | {windows} | {_fold(chance)} | {step} | to out",)
    return topology, inputs(chance, ["in"], letters=(KEYS, "1234567"))


def _cogrouped(chance: Random) -> tuple[Lines, Lines]:
    kind = chance.choice(["", "tumbling", "hopping", "sliding", "session"])
    # Where something is late the two differ: theirs keeps a time for each stream.
    windows = f" | {_window(chance, kind).partition(' grace')[0]} grace {DAY}" if kind else ""
    lines = (
        "one = stream left | group",
        f"other = stream right | {chance.choice(['group', 'group-by first'])}",
        f"one | cogroup A | cogroup B other{windows} | aggregate | to out",
    )
    return lines, inputs(chance, ["left", "right"], letters=("12", "12"))


def _stateless(chance: Random) -> tuple[Lines, Lines]:
    steps = [
        "map-values plus", "filter low", "filter-not has-x", "select-key first", "peek",
        "map keyed value", "map-values plus-null", "flat-map-values parts", "flat-map parts",
        "filter-not no-key | repartition", "changed", "filter null", "map-values keyed",
    ]  # fmt: skip
    chosen = [step for step in chance.sample(steps, 4) if step != "changed"]
    ending = chance.choice(["", "", " | filter-not null | map key plus | group | aggregate"])
    found = " | ".join(["stream in,other", *chosen]) + ending
    values = ["1", "2", "x", "1,2", "7,x,1"]
    lines = inputs(chance, ["in", "other"], letters=(KEYS, "abcde"))
    return (f"{found} | to out",), tuple(
        " ".join([*line.split(" ")[:2], _chosen(line.split(" ")[2], values), *line.split(" ")[3:]])
        for line in lines
    )


def _chosen(letter: str, values: list[str]) -> str:
    return letter if letter == "null" else values["abcde".index(letter)]


def _branched(chance: Random) -> tuple[Lines, Lines]:
    lines = (
        f"one, two, rest = stream in | branch {chance.choice(['low has-x', 'has-x key-a'])}",
        "one | map-values plus | to one",
        f"two | merge rest | {chance.choice(['map-values keyed', 'peek'])} | to others",
    )
    return lines, inputs(chance, ["in"], nulls=0.15)


def _punctuated(chance: Random) -> tuple[Lines, Lines]:
    by = chance.choice(["stream", "wall"])
    every = chance.choice([3, 10, 25])
    found = []
    for line in inputs(chance, ["in"], nulls=0):
        found.append(line)
        if chance.random() < 0.4:
            found.append(f"clock {chance.choice([1, 5, 12, 40])}")
    return (f"stream in | punctuate {by} {every} | to out",), tuple(found)


_KINDS = ("tumbling", "hopping", "sliding", "session")
_JOINS = ("join", "left-join", "outer-join")
_FOREIGN = ("fk-join", "fk-left-join")
_LOOKUPS = ("lookup", "left-lookup")


def _each(count: int, title: str, names: tuple[str, ...], make: Callable[[str], Make]) -> Families:
    return {title.format(name): (count, make(name)) for name in names}


FAMILIES: Families = {
    **_each(12, "{} windows", _KINDS, _windowed),
    **_each(12, "closed {} windows", _KINDS, _closed),
    **_each(8, "suppressed {} windows", _KINDS, _suppressed),
    "unlimited windows": (6, _unlimited),
    "suppressed tables": (12, _suppressed_table),
    **_each(8, "suppressed {}", _JOINS + _FOREIGN + _LOOKUPS, _suppressed_join),
    "folds": (12, _folded),
    **_each(16, "stream {}", _JOINS, _stream_join),
    **_each(8, "stream {}", _LOOKUPS, _lookup),
    **_each(16, "versioned {}", _LOOKUPS, _versioned_lookup),
    **_each(8, "stream {}-global", _LOOKUPS, _global_lookup),
    **_each(12, "table {}", _JOINS, _table_join),
    **_each(12, "table {}", _FOREIGN, _foreign_key),
    "regrouped tables": (16, _regrouped),
    "tables": (12, _table),
    "versioned tables": (12, _versioned),
    **_each(8, "versioned table {}", _JOINS + _FOREIGN, _versioned_join),
    "changes of windows": (12, _regrouped_windows),
    "cogrouped": (16, _cogrouped),
    "stateless": (16, _stateless),
    "branches": (6, _branched),
    "punctuated": (8, _punctuated),
}


def scripts() -> list[Script]:
    """All of them."""
    found = []
    for family, (count, make) in FAMILIES.items():
        for seed in range(count):
            topology, lines = make(Random(f"{family} {seed}"))
            found.append(Script(f"{family} {seed}", topology, lines))
    return found
