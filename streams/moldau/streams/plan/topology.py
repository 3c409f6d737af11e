"""What an app has been: its inputs, stores and repartition topics, kept in a topic of the app.

An app that starts is compared with what it was before. If something is gone, the app would leave
state behind without a word: a renamed store starts empty, and another app with the same name would
take over the offsets of this one. What is only new is an ordinary change: then the earlier topology
is kept too, so that workers of the earlier version may start again: in a rolling upgrade, or to go
back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from moldau.deferred import dataclass
from moldau.streams.plan import operations as op
from moldau.streams.plan.patterns import PREFIX
from moldau.streams.plan.plan import Plan
from moldau.streams.problems import TopologyChanged

Epochs = tuple[tuple[int, str], ...]
_FORM: Final = 1
_FORMER_MAX: Final = 10
_NAMES: Final = ("inputs", "stores", "repartitions")
KEY: Final = b"topology"
CONFIGS: Final[Mapping[str, str]] = {"cleanup.policy": "compact"}


Details = Mapping[str, Mapping[str, str]]
"""Facts of stores and repartition topics, by what they are: as "store counts"."""


@dataclass(frozen=True, slots=True)
class Topology:
    """What an app would leave behind if it were gone: names, each list in order.

    `former` are the topologies that this one has added to, the newest first. `epochs` has what the
    app was in its streams group, by topology epoch: pairs of an epoch and a digest, newest first.
    `details` decide nothing: `moldau streams plan` compares them. `sources` are those of the rows
    of each store (`plan.lost_offsets`).
    """

    inputs: tuple[str, ...]
    stores: tuple[str, ...]
    repartitions: tuple[str, ...]
    former: tuple[Topology, ...] = field(default=(), compare=False)
    epochs: Epochs = field(default=(), compare=False)
    details: Details = field(default_factory=dict, compare=False)
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, plan: Plan) -> Topology:
        """Return the topology of a plan. A pattern is an input of its own, whatever it matches."""
        inputs = {table.topic for table in plan.global_tables}
        for program in plan.programs:
            for step in program.steps:
                if isinstance(step.operation, op.Source | op.TableSource):
                    is_pattern = step.name.startswith(PREFIX)
                    inputs |= {step.name} if is_pattern else {*step.operation.topics}
        own = {topic.name for topic in plan.repartitions}
        stores = {store.name for program in plan.programs for store in program.stores}
        stores |= {table.store.name for table in plan.global_tables}
        return cls(tuple(sorted(inputs - own)), tuple(sorted(stores)), tuple(sorted(own)))

    def encoded(self) -> bytes:
        """Return the topology as JSON."""
        former = [each._fields() for each in self.former]
        found = {
            "form": _FORM,
            **self._fields(),
            "former": former,
            "epochs": self.epochs,
            "details": self.details,
            "sources": self.sources,
        }
        return json.dumps(found).encode()

    def _fields(self) -> dict[str, tuple[str, ...]]:
        return {name: getattr(self, name) for name in _NAMES}

    @classmethod
    def decoded(cls, data: bytes | None) -> Topology | None:
        """Return the topology of a record; None if it is of another form."""
        try:
            found = json.loads(data or b"null")
        except ValueError:
            return None
        if not isinstance(found, dict) or found.get("form") != _FORM:
            return None
        former = tuple(_topology(each) for each in found.get("former", ()))
        epochs = tuple((int(epoch), str(digest)) for epoch, digest in found.get("epochs", ()))
        return replace(
            _topology(found),
            former=former,
            epochs=epochs,
            details=found.get("details", {}),
            sources=found.get("sources", {}),
        )


def _topology(found: Mapping[str, Sequence[str]]) -> Topology:
    inputs, stores, repartitions = (tuple(found[name]) for name in _NAMES)
    return Topology(inputs, stores, repartitions)


def to_keep(
    app: str, before: Topology | None, now: Topology, *, accepts_changes: bool
) -> Topology | None:
    """Return what to keep from now on, None for what is kept already. Raise TopologyChanged if
    something of the topology before is gone, and neither accepted nor a return to a former one."""
    if before is None:
        return now
    if now == before and now.details != before.details and not _is_older(now, before):
        return replace(now, former=before.former)
    if now == before or now in before.former:
        return None
    if not (gone := _named(before, now)):
        former = (replace(before, former=(), details={}), *before.former)
        return replace(now, former=former[:_FORMER_MAX])
    if not accepts_changes:
        raise TopologyChanged(app, gone, _named(now, before))
    return now


def _is_older(now: Topology, before: Topology) -> bool:
    """Whether a store has an earlier version than before: in a rolling upgrade, a worker of the
    earlier app that starts again."""
    return any(
        int(was.get("version", "1")) > int(now.details.get(what, was).get("version", "1"))
        for what, was in before.details.items()
    )


def _named(one: Topology, other: Topology) -> list[str]:
    """Return what is in one topology and not in another, in words."""
    kinds = (
        ("input", one.inputs, other.inputs),
        ("store", one.stores, other.stores),
        ("repartition topic", one.repartitions, other.repartitions),
    )
    return [
        f"{kind} {name}" for kind, names, others in kinds for name in names if name not in others
    ]
