"""The logical plan while the DSL builds it: steps by name, in the order they were made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from moldau.streams.plan.operations import Emit, Operation, Step
from moldau.streams.plan.plan import GlobalTable, LakeTable
from moldau.streams.plan.policies import FAIL, Policy
from moldau.streams.plan.replies import REPLY_TOPICS
from moldau.streams.problems import TopologyError
from moldau.streams.state.spec import StoreSpec


class Graph:
    """The logical plan of an app. Parents come before children; names of stores are unique."""

    def __init__(self, app: str, *, on_error: Policy = FAIL, emit: Emit = Emit.COMMIT) -> None:
        self.app = app
        self.on_error = on_error
        self.emit = emit
        self.reply_topics = REPLY_TOPICS
        self.steps: dict[str, Step] = {}
        self.global_tables: dict[str, GlobalTable] = {}
        self.lake_tables: dict[str, LakeTable] = {}
        self._stores: set[str] = set()
        self._shared: dict[str, StoreSpec] = {}

    def add(self, step: Step) -> Step:
        """Add a step and return it; a name that is taken gets a number."""
        name, count = step.name, 1
        while name in self.steps:
            count += 1
            name = f"{step.name}#{count}"
        step = replace(step, name=name)
        self.steps[name] = step
        return step

    def update(self, step: Step, operation: Operation) -> Step:
        """Replace the operation of a step and return the step: a later step may need more of it."""
        step = replace(self.steps[step.name], operation=operation)
        self.steps[step.name] = step
        return step

    def add_lookups(self, step: Step, tables: Iterable[str]) -> Step:
        """Let a step read rows of these tables, and return the step."""
        step = self.steps[step.name] = replace(step, lookups=(*step.lookups, *tables))
        return step

    def share_store(self, store: StoreSpec, operator: str) -> StoreSpec:
        """Reserve the name of a store that several operators may share, and return its first
        declaration. Raise TopologyError if a later one differs."""
        known = self._shared.get(store.name)
        if known is None:
            self.claim_store(store.name, operator)
            known = self._shared[store.name] = store
        if _declared(known) != _declared(store):
            raise TopologyError(
                f"app={self.app} {operator}: the store {store.name!r} was declared with other "
                "types, times or another logged=...: declare it once and give it to both operators"
            )
        return known

    def claim_store(self, name: str | None, operator: str) -> str:
        """Reserve and return the name of a store: part of a topic's name, so it must stay."""
        if not name:
            raise TopologyError(
                f"app={self.app} {operator}: it keeps state, and the state's topic needs a name "
                f'that stays the same: {operator}(name="...")'
            )
        if not all((letter.isascii() and letter.isalnum()) or letter in "._-" for letter in name):
            raise TopologyError(
                f"app={self.app} {operator}: name {name!r} must consist of letters, digits, "
                '".", "_" and "-": it becomes part of a topic name'
            )
        if name in self._stores:
            raise TopologyError(f"app={self.app} {operator}: the name {name!r} is taken")
        self._stores.add(name)
        return name


def _declared(store: StoreSpec) -> tuple[object, ...]:
    types = store.key.name, store.value.name
    return store.kind, *types, store.is_logged, store.retention_ms, store.window_ms
