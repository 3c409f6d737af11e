"""Options of steps, tables and joins: how tables are kept, and when they emit updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypedDict

from moldau.streams.dsl.calls import call_of
from moldau.streams.dsl.inference import parameter_type
from moldau.streams.durations import Duration, milliseconds
from moldau.streams.plan.graph import Graph
from moldau.streams.plan.operations import Emit
from moldau.streams.plan.policies import Policy
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.types import key_codec, stored_codec
from moldau.streams.state.spec import Migration, StoreKind, StoreSpec

Migrations = Mapping[int, Callable[[Any], Any]]
"""By version, the function that makes the next version of a value of it."""


class TableOptions(TypedDict, total=False):
    """`emit`: "commit" (the last update of each key at a commit), "every", and for windows "close".
    `logged` False keeps no changelog: the state is lost with the machine. `in_memory` keeps rows
    without a disk: each start restores them from the changelog. `retain` keeps windows
    for queries this long. `config` has settings of the changelog topic. `versioned` keeps the
    history of each key this long (to_table). `type` is the type of the values. `on_error` is the
    policy for records that fail in the aggregate. `version` counts the forms that values have had,
    and `migrate={1: function}` says how those of version 1 become version 2: the parameter of the
    function declares the earlier type."""

    emit: Literal["commit", "every", "close"]
    logged: bool
    in_memory: bool
    retain: Duration
    config: dict[str, str]
    type: Any
    versioned: Duration
    on_error: Policy | str | None
    version: int
    migrate: Migrations


class RowOptions(TypedDict, total=False):
    """`logged` False keeps no changelog. `in_memory` keeps rows without a disk: each start restores
    them from the changelog."""

    logged: bool
    in_memory: bool


class StateStoreOptions(RowOptions, total=False):
    """Options of rows, and `version` and `migrate` as for tables: how values get another form."""

    version: int
    migrate: Migrations | None


class StepOptions(TypedDict, total=False):
    """`type` is the type of the results, `on_error` is the policy for records that fail here."""

    type: Any
    on_error: Policy | str | None


class JoinOptions(TypedDict, total=False):
    """`key` selects the row of a global table, `grace` waits for late rows of a versioned table,
    `name` names the join's stores and topics, `on_error` is the policy for records that fail."""

    key: Callable[..., Any] | None
    grace: Duration | None
    name: str | None
    on_error: Policy | str | None


def check_options(operator: str, given: Mapping[str, Any], known: type) -> None:
    """Raise TopologyError for an unknown option: a misspelt one must not be ignored."""
    unknown = sorted(set(given) - set(known.__annotations__))
    if unknown:
        names = ", ".join(sorted(known.__annotations__))
        raise TopologyError(f"{operator}: it takes no {unknown[0]}=...; it takes {names}")


def store_of(
    name: str,
    kind: StoreKind,
    types: tuple[Any, Any],
    options: TableOptions,
    *,
    retention_ms: int | None = None,
    window_ms: int | None = None,
) -> StoreSpec:
    """Return the store of a table. Windows are retained at least as long as they accept records."""
    key, value = types
    check_options(name, options, TableOptions)
    if "versioned" in options:
        if kind is not StoreKind.KEY_VALUE:
            raise TopologyError(f"{name}: versioned=... is for tables without windows")
        kind = StoreKind.VERSIONED
        retention_ms = milliseconds(options["versioned"], f"{name} versioned")
    if "retain" in options:
        retained = milliseconds(options["retain"], f"{name} retain")
        if retention_ms is None or retained < retention_ms:
            raise TopologyError(
                f"{name}: retain={options['retain']!r} must cover the window and its grace"
                if retention_ms is not None
                else f"{name}: retain is for windows; a table keeps its rows"
            )
        retention_ms = retained
    found = StoreSpec(
        name,
        kind,
        key_codec(key),
        stored_codec(value),
        retention_ms=retention_ms,
        is_logged=options.get("logged", True),
        window_ms=window_ms,
        is_in_memory=options.get("in_memory", False),
        topic_config=options.get("config", {}),
    )
    return versioned(found, options.get("version", 1), options.get("migrate"))


def versioned(store: StoreSpec, version: Any, migrate: Any) -> StoreSpec:
    """Return the store with the version of its values. Raise TopologyError if a step is missing."""
    given = {} if migrate is None else migrate
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise TopologyError(f"{store.name}: version={version!r} must be a number from 1 on")
    if not isinstance(given, Mapping):
        raise TopologyError(f"{store.name}: migrate={given!r:.80} must be a dict: {{1: function}}")
    unknown = [each for each in given if each not in range(1, version)]
    if unknown:
        raise TopologyError(
            f"{store.name}: migrate[{unknown[0]!r}] leads nowhere: the store has version "
            f"{version}, and migrate[N] makes version N + 1 of N"
        )
    if version > 1 and not store.is_logged:
        raise TopologyError(
            f"{store.name}: version=... needs a changelog, which logged=False leaves out: rename "
            "the store instead, so that it begins empty"
        )
    steps = {}
    for each, function in sorted(given.items()):
        operator = f"{store.name} migrate[{each}]"
        if call_of(function, operator).takes_key:
            raise TopologyError(f"{operator}: {function!r:.80} must take one argument, the value")
        steps[each] = Migration(stored_codec(parameter_type(function)), function)
    missing = [each for each in range(min(steps, default=version), version) if each not in steps]
    if missing:
        raise TopologyError(
            f"{store.name}: migrate[{missing[0]}] is missing: without it nothing leads from "
            f"version {missing[0]} to {missing[0] + 1}"
        )
    return replace(store, version=version, migrations=steps)


def emit_of(
    graph: Graph, options: TableOptions, operator: str, *, has_windows: bool = False
) -> Emit:
    given = options.get("emit")
    if given is None:
        return graph.emit
    if given not in ("commit", "every", "close") or (given == "close" and not has_windows):
        allowed = '"commit", "every" or "close"' if has_windows else '"commit" or "every"'
        raise TopologyError(f"{operator}: emit={given!r} must be {allowed}")
    return Emit(given)
