"""Random apps with functions that fail, and what each policy must make of them.

A seed draws an app: branches of steps of all kinds, in sync, async, batch and column form, tables
and windows, and a policy for the app and for some of its steps. And it draws faults: the function
of a step fails at one input record, so many times or always.

Every value has the number of the input record that it came from last, its `origin`, in front of
what the steps make of it. So a policy is a set of values that some place does not get, and the
model is the same app with filters in these places and functions that never fail:

* What succeeds in the end, leaves nothing of the attempts before: no filter.
* A step with a policy of its own leaves out its own work on a record: a filter before it.
* The policy of the app leaves out the whole unit: a filter behind the source; or before the async
  function or `map_batch` for which the record waited; or behind the table that emits a row.
* An app that stops is repaired and starts again: no filter.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any, Final

from moldau.streams import (
    Context,
    Record,
    StateStore,
    Stream,
    Streams,
    col,
    dead_letter,
    hopping,
    retry,
    session,
    sliding,
    tumbling,
    until_time,
)
from moldau.streams.plan.policies import FAIL, SKIP, Policy

UNIT: Final = 1_000_000
KEYS: Final = "abc"
"""Of one partition of two."""
SYNC: Final = (
    "map_values", "map", "select", "filter", "filter column", "flat_map", "peek", "process",
    "to", "branch", "lookup", "aggregate",
)  # fmt: skip
WAITING: Final = ("async", "async flat_map", "map_batch")
TABLES: Final = (
    "every", "tumbling", "hopping", "session", "sliding", "to_table", "regroup", "stream join",
    "outer join", "suppress", "at commit", "closing", "timer",
)  # fmt: skip
BY_CLOCK: Final = ("process", "timer", "closing", "suppress", "outer join", "at commit")
EMITTING: Final = ("closing", "suppress", "outer join")
"""What comes out of them is emitted, at times row by row."""
MOVING: Final = ("at commit", "timer", "outer join")
"""What comes out of them depends on commits and kills, or belongs to a record or to none."""
MAPPING: Final = ("map_values", "map", "select", "peek", "lookup", "to")
STATELESS: Final = (*MAPPING, "filter", "filter column", "flat_map", "branch")
JOINS: Final = ("stream join", "outer join")
POLICIES: Final = (
    retry(3, backoff="20ms"),
    retry(2, backoff="20ms", then="skip"),
    retry(1, backoff="20ms", then=dead_letter("dead")),
    SKIP,
    dead_letter("dead"),
    FAIL,
)
SHARED: Final = 1000
ALWAYS: Final = 10**9


class Failure(Exception):
    """A function that fails, as planned."""


def origin(value: int) -> int:
    return value // UNIT


def merged(left: int, right: int) -> int:
    """A value of the later record, with what both hold."""
    return max(origin(left), origin(right)) * UNIT + (left + right) % UNIT


@dataclass(frozen=True)
class Part:
    """A step of an app: its kind, its number, which is that of the part before it, its policy."""

    kind: str
    number: int
    before: int
    policy: Policy | None

    @property
    def waits(self) -> bool:
        return self.kind in WAITING


Fault = tuple[int, int]
"""The number of a part, and the origin of the values at which it fails."""


@dataclass
class Faults:
    """The calls that fail, and how often they still do; functions count them down."""

    left: dict[Fault, int]
    name: str = ""
    """With a name, a copy in this process is the same object, as in an executor of Spark."""
    hits: Counter[Fault] = field(default_factory=Counter)
    """How often each has come: failed, or was filtered out."""

    def __post_init__(self) -> None:
        if self.name:
            vars(sys)[f"faults of {self.name}"] = self

    def __reduce__(self) -> tuple[Callable[[str], Faults], tuple[str]]:
        assert self.name
        return _named, (self.name,)

    def check(self, part: int, value: int) -> None:
        fault = part, origin(value)
        if self.left.get(fault, 0):
            self.left[fault] -= 1
            self.hits[fault] += 1
            raise Failure(fault)


def _named(name: str) -> Faults:
    """The faults of this name. They are in a module that nothing ships to executors as a copy."""
    found: Faults = vars(sys)[f"faults of {name}"]
    return found


class Model(Faults):
    """Nothing fails; the first fault of each record that would is noted, in the order of calls."""

    def __init__(self, faults: dict[Fault, int]) -> None:
        super().__init__(faults)
        self.first: dict[int, int] = {}

    def check(self, part: int, value: int) -> None:
        if (part, origin(value)) in self.left:
            self.first.setdefault(origin(value), part)


Drops = dict[int, dict[int, int]]
"""The origins that do not come into a part, and the part that fails at them. Key -N is for the
rows that come out of part N, 0 for the source, and keys from SHARED on for the parts that read one
repartition topic."""


class FailingApp:
    """The description of a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(f"failing app {seed}")
        self.on_error = random.choice(POLICIES)
        self.parts: list[Part] = []
        for _ in range(random.randint(4, 8)):
            self.parts.append(self._drawn(len(self.parts) + 1))
        self.count = random.randint(15, 40)
        self._few = [random.randrange(self.count) for _ in range(3)]
        self.faults = {self._fault(): 0 for _ in range(random.randint(2, 6))}
        for fault in self.faults:
            self.faults[fault] = self._times(fault)
        self.records = self._records()
        self.text = "; ".join(
            f"{each.number} {each.kind} after {each.before}, {each.policy or '-'}"
            for each in self.parts
        )
        self.text = f"{self.on_error}: {self.text}; {self.faults}"

    def _drawn(self, number: int) -> Part:
        kinds = self.random.choice((SYNC, SYNC, WAITING, TABLES))
        numbers = [0, *(each.number for each in self.parts if each.kind != "to")]
        before = self.random.choice((*numbers, *numbers[-1:]))
        if kinds is WAITING and self._has_clock(before):
            kinds = SYNC
        policy = self.random.choice((None, *POLICIES))
        return Part(self.random.choice(kinds), number, before, policy)

    def _has_clock(self, number: int) -> bool:
        """Whether something may come there that the clock has emitted: nothing waits for that."""
        found = False
        for part in self._way(number):
            found = part.kind != "regroup" and (found or part.kind in BY_CLOCK)
        return found

    def _fault(self) -> Fault:
        fallible = [each.number for each in self.parts if each.kind not in TABLES]
        return self.random.choice(fallible or [1]), self.random.choice(self._few)

    def _times(self, fault: Fault) -> int:
        """How often a part fails: it succeeds at the last attempt at most, or never, where the
        model knows what is emitted whenever commits come."""
        policy = self.policy(fault[0])
        is_moving = any(
            each.kind in MOVING or (each.kind in JOINS and self.reads_topic(each))
            for each in self._way(fault[0])
        )
        if policy.retries and (is_moving or self.random.random() < 0.6):
            return self.random.randint(1, policy.retries)
        return 0 if is_moving and policy.then != "fail" else ALWAYS

    def sameness(self, number: int) -> str:
        """How what comes out of a part compares with the model: exactly; as a "bag" where rows are
        emitted that may fail and come later than others; the "last" of each key where updates come
        as commits do; "none" where that changes what is made of them."""
        found = "exact"
        for part in self._way(number):
            if part.kind in JOINS and self.reads_topic(part):
                found = "none"  # it has two inputs, which come in any order
            elif part.kind == "at commit":
                found = "last" if found == "exact" else "none"
            elif part.kind == "timer":  # it begins anew with each task
                found = "none"
            elif part.kind in EMITTING:
                if found != "exact" or self._fails_behind(part.number):
                    found = "bag" if found == "exact" else "none"
            elif (found == "last" and part.kind not in MAPPING) or (
                found == "bag" and part.kind not in STATELESS
            ):
                found = "none"
        return found

    def has_certain_time(self, number: int) -> bool:
        """Whether the stream time of a part compares with the model: not behind rows that are held
        back from updates which come as commits do, for some of them are never updated again."""
        kinds = [part.kind for part in self._way(self.part(number).before)]
        if "at commit" not in kinds:
            return True
        return not any(each in EMITTING for each in kinds[kinds.index("at commit") + 1 :])

    def _fails_behind(self, number: int) -> bool:
        return any(self.part(number) in self._way(part) for part, _ in self.faults)

    def policy(self, number: int) -> Policy:
        return self.part(number).policy or self.on_error

    def part(self, number: int) -> Part:
        return self.parts[number - 1]

    def repair(self, faults: Faults) -> None:
        """The app has stopped: whatever has failed by a policy that ends it, works from now on."""
        for part, number in list(faults.hits):
            if self.policy(part).then == "fail":
                faults.left[part, number] = 0

    def _way(self, number: int) -> list[Part]:
        """The parts from the source to this one."""
        way: list[Part] = []
        while number:
            way.insert(0, self.part(number))
            number = way[0].before
        return way

    def _records(self) -> list[tuple[str, int, int]]:
        """Keys, values and times, some of which come late."""
        records, time = [], 0
        for number in range(self.count):
            time += self.random.choice((0, 500, 4_000, 40_000))
            late = self.random.choice((0, 0, 3_000, 9_000))
            at = max(0, time - late)
            records.append((self.random.choice(KEYS), number * UNIT + number % 7, at))
        return records

    def root(self, number: int) -> int:
        """The place where the unit begins that the policy of the app leaves out."""
        way = self._way(number)
        for part in reversed(way):
            if part.waits or part.kind == "regroup":
                return part.number
            if part.number != number and part.kind in ("closing", "suppress"):
                return -part.number
            if self.reads_topic(part):
                return self.shared(part)
        return 0

    def reads_topic(self, part: Part) -> bool:
        """Whether a part goes on from a repartition topic."""
        return self._sources[part.number] != self._sources[part.before]

    def shared(self, part: Part) -> int:
        """The place in front of all parts that read the repartition topic of a part."""
        return SHARED + sorted(self._sources.values()).index(self._sources[part.number])

    @cached_property
    def _sources(self) -> dict[int, str]:
        """The source of the sub-topology that each part is in, as the plan says."""
        steps = {
            step.name: step
            for program in self.failing(Faults({})).plan().programs
            for step in program.steps
        }
        found = {0: "in"}
        for part in self.parts:
            step = steps[f"to(out-{part.number})"]
            while step.parents:
                step = steps[step.parents[0]]
            found[part.number] = step.name
        return found

    # The two ways to build it

    def failing(self, faults: Faults, name: str = "app") -> Streams:
        return Build(self, faults, {}, name).app

    def modelled(self, drops: Drops, model: Model) -> Streams:
        return Build(self, model, drops, "app").app

    def drops(self, run: Callable[[Streams], object]) -> Drops:
        """What each place does not get: found fault by fault, as each run shows the first one of
        each record that is reached."""
        drops: Drops = {}
        always = {
            fault: times
            for fault, times in self.faults.items()
            if times == ALWAYS and self.policy(fault[0]).then != "fail"
        }
        while True:
            model = Model(dict(always))
            run(self.modelled(drops, model))
            if not model.first:
                return drops
            for number, part in model.first.items():
                is_own = self.part(part).policy is not None
                drops.setdefault(part if is_own else self.root(part), {})[number] = part


class Build:
    """An app made from a description. `faults` fail, and `drops` are filtered out."""

    def __init__(self, given: FailingApp, faults: Faults, drops: Drops, name: str) -> None:
        self._given = given
        self._faults = faults
        self._drops = drops
        self._name = name
        self.app = Streams(name, on_error=self._on(given.on_error), emit="every")
        source = self.app.stream(self.topic("in"), int, key=str)
        self._streams: dict[int, Stream[Any, Any]] = {0: self._without(0, source)}
        self._rows = self.app.table(self.topic("rows"), int, key=str, name="rows")
        for part in given.parts:
            before = self._without(part.number, self._streams[part.before])
            if drops and part.kind != "regroup" and given.reads_topic(part):
                before = self._without(given.shared(part), before)
            after = self._made(part, before)
            self._streams[part.number] = self._without(-part.number, after)
            if part.kind != "to":
                self._streams[part.number].to(self.topic(f"out-{part.number}"), key=str, type=int)

    def topic(self, name: str) -> str:
        return name if self._name == "app" else f"{self._name}-{name}"

    def _on(self, policy: Policy | None) -> Any:
        if policy is None or policy.dead_letter is None:
            return policy
        dead = dead_letter(self.topic("dead"))
        if not policy.retries:
            return dead
        return retry(policy.retries, backoff=policy.backoff_ms, then=dead)

    def _without(self, place: int, stream: Stream[Any, Any]) -> Stream[Any, Any]:
        dropped, hits = self._drops.get(place), self._faults.hits

        def is_kept(value: int) -> bool:
            assert dropped is not None
            part = dropped.get(origin(value))
            if part is not None:
                hits[part, origin(value)] += 1
            return part is None

        return stream if not dropped else stream.filter(is_kept)

    def _made(self, part: Part, stream: Stream[Any, Any]) -> Stream[Any, Any]:
        if part.waits:
            return self._waiting(part, stream)
        if part.kind in TABLES:
            return self._table(part, stream)
        return self._sync(part, stream)

    def _check(self, part: Part) -> Callable[[int], int]:
        number, faults = part.number, self._faults

        def checked(value: int) -> int:
            faults.check(number, value)
            return value

        return checked

    def _sync(self, part: Part, stream: Stream[Any, Any]) -> Stream[Any, Any]:
        check, on = self._check(part), {"on_error": self._on(part.policy)}
        match part.kind:
            case "map_values":
                return stream.map_values(lambda v: check(v) + 1, type=int, **on)
            case "map":
                return stream.map(lambda k, v: (k, check(v) + 2), key=str, type=int, **on)
            case "select":
                rows = stream.map_values(_row(check), type=dict[str, Any])
                made = rows.with_columns(w=col("v") * 1, **on)
                return made.map_values(lambda row: row["w"] + 1, type=int)
            case "filter":
                return stream.filter(lambda v: check(v) % 5 != 0, **on)
            case "filter column":
                rows = stream.map_values(_row(check), type=dict[str, Any])
                kept = rows.filter(col("v") % 5 != 1, **on)
                return kept.map_values(lambda row: row["v"], type=int)
            case "flat_map":
                return stream.flat_map(lambda v: [check(v), v + 3], type=int, **on)
            case "peek":
                return stream.peek(check, **on)
            case "process":
                return self._processed(part, stream)
            case "to":
                topic = self.topic(f"out-{part.number}")
                stream.to(topic, key=str, type=int, partitioner=lambda _, v: check(v) * 0, **on)
                return stream
            case "branch":
                return stream.branch(lambda v: check(v) % 2 == 0, lambda _: True, **on)[1]
            case "lookup":
                return stream.left_join(
                    self._rows, lambda v, _: check(v) + 4, name=f"lookup-{part.number}", **on
                ).map_values(lambda v: v, type=int)
            case kind:
                assert kind == "aggregate"
                grouped = stream.group_by_key()
                table = grouped.aggregate(
                    0, lambda old, v: merged(old, check(v)), type=int, name=f"s{part.number}", **on
                )
                return table.changes()

    def _processed(self, part: Part, stream: Stream[Any, Any]) -> Stream[Any, Any]:
        name, check = f"s{part.number}", self._check(part)
        store = StateStore(name, key=str, value=int)

        class Adding:
            """Writes and forwards before it may fail, and afterwards."""

            def __init__(self, context: Context) -> None:
                self._context = context
                self._sums = context.store(name)

            def process(self, record: Record) -> None:
                total = merged(self._sums.get(record.key, 0), record.value)
                self._sums[record.key] = total
                self._context.forward(record.changed(value=total))
                check(record.value)
                self._context.forward(record)

        on = self._on(part.policy)
        return stream.process(
            Adding, name=f"p{part.number}", stores=[store], key=str, type=int, on_error=on
        )

    def _waiting(self, part: Part, stream: Stream[Any, Any]) -> Stream[Any, Any]:
        check, on = self._check(part), {"on_error": self._on(part.policy)}

        async def called(value: int) -> int:
            return check(value) + 1

        async def items(value: int) -> list[int]:
            return [check(value), value + 2]

        if part.kind == "async":
            return stream.map_values(called, type=int, **on)
        if part.kind == "async flat_map":
            return stream.flat_map(items, type=int, **on)
        return stream.map_batch(lambda values: [check(v) + 5 for v in values], type=int, **on)

    def _table(self, part: Part, stream: Stream[Any, Any]) -> Stream[Any, Any]:
        name, grouped = f"s{part.number}", stream.group_by_key()
        match part.kind:
            case "every":
                return grouped.reduce(merged, name=name).changes()
            case "to_table":
                return stream.to_table(name=name).map_values(lambda v: v + 1, type=int).changes()
            case "tumbling":
                table = grouped.window(tumbling("10s", grace=0)).reduce(merged, name=name)
            case "hopping":
                windows = hopping("10s", advance="5s")
                table = grouped.window(windows).reduce(merged, name=name)
            case "session":
                windowed = grouped.window(session("2s"))
                table = windowed.reduce(merged, name=name)
            case "sliding":
                windowed = grouped.window(sliding("2s"))
                table = windowed.reduce(merged, name=name)
            case "closing":
                windowed = grouped.window(tumbling("10s"), emit="close")
                table = windowed.reduce(merged, name=name)
            case "regroup":
                by = stream.group_by(lambda v: KEYS[v % 3], type=str)
                return by.reduce(merged, name=name).changes()
            case "stream join":
                joined = stream.join(stream, merged, within="5s", name=name)
                return joined.map_values(lambda v: v, type=int)
            case "outer join":
                odd = stream.filter(lambda v: v % 2 == 1)
                joined = stream.left_join(
                    odd, lambda v, w: v if w is None else merged(v, w), within="5s", name=name
                )
                return joined.map_values(lambda v: v, type=int)
            case "suppress":
                table = grouped.reduce(merged, name=name)
                return table.suppress(until_time("10s"), name=f"{name}-held").changes()
            case "at commit":
                return grouped.reduce(merged, name=name, emit="commit").changes()
            case kind:
                assert kind == "timer"
                return self._timed(part, stream)
        changes = table.changes().filter(lambda v: v is not None)
        return changes.map(lambda k, v: (k.key, v), key=str, type=int)

    def _timed(self, part: Part, stream: Stream[Any, Any]) -> Stream[Any, Any]:
        name = f"s{part.number}"
        store = StateStore(name, key=str, value=int)

        class Summing:
            """Forwards the sums as stream time advances."""

            def __init__(self, context: Context) -> None:
                self._context = context
                self._sums = context.store(name)
                context.schedule("10s", self._tick)

            def process(self, record: Record) -> None:
                self._sums[record.key] = merged(self._sums.get(record.key, 0), record.value)

            def _tick(self, now_ms: int) -> None:
                for key, value in self._sums.items():
                    self._context.forward(Record(key, value, now_ms))

        return stream.process(Summing, name=f"p{part.number}", stores=[store], key=str, type=int)


def _row(check: Callable[[int], int]) -> Callable[[int], dict[str, Any]]:
    """A row with a field that fails as an operand where the check does."""

    def row(value: int) -> dict[str, Any]:
        try:
            return {"v": check(value)}
        except Failure:
            return {"v": b"no number"}

    return row


def kinds(apps: Sequence[FailingApp]) -> Counter[str]:
    """How often each kind of part fails."""
    return Counter(app.part(part).kind for app in apps for part, _ in app.faults)
