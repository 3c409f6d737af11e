"""A stream of records, and its operators."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar, Unpack, overload

from moldau.streams.dsl import joins
from moldau.streams.dsl.calls import NO_TYPE, call_of, check_sync, pair_call_of, stateless
from moldau.streams.dsl.grouped import Grouped
from moldau.streams.dsl.inference import element_type, pair_types, result_type
from moldau.streams.dsl.joins import GlobalRows, Joiner
from moldau.streams.dsl.node import Node
from moldau.streams.dsl.options import (
    JoinOptions,
    StepOptions,
    TableOptions,
    check_options,
    emit_of,
    store_of,
)
from moldau.streams.dsl.processing import Stores as Stores
from moldau.streams.dsl.processing import UserOperator as UserOperator
from moldau.streams.dsl.processing import process_step as process_step
from moldau.streams.dsl.processing import row_steps as row_steps
from moldau.streams.dsl.selections import addition, expression_call, result_record, selection
from moldau.streams.dsl.table import Table
from moldau.streams.durations import Duration
from moldau.streams.engine.batches import Headers
from moldau.streams.engine.operators.process import Context
from moldau.streams.expressions.column import Column
from moldau.streams.plan import operations as op
from moldau.streams.plan.functions import Call
from moldau.streams.plan.joins import JoinKind, JoinWindows
from moldau.streams.plan.operations import Step
from moldau.streams.plan.partitioners import result_partitioning
from moldau.streams.plan.policies import Policy
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.types import codec_for
from moldau.streams.state.spec import StoreKind

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
Kc = TypeVar("Kc", contravariant=True)
Vc = TypeVar("Vc", contravariant=True)
Rc = TypeVar("Rc", covariant=True)

# A user's function takes the value, or key and value if it requires two arguments.
ValueFunction = Callable[[V], V2]
KeyValueFunction = Callable[[K, V], V2]


class HeaderFunction(Protocol[Vc, Rc]):
    """A function that is also given the headers of the record."""

    def __call__(self, value: Vc, /, *, headers: Headers) -> Rc: ...


class KeyHeaderFunction(Protocol[Kc, Vc, Rc]):
    """The same with the key."""

    def __call__(self, key: Kc, value: Vc, /, *, headers: Headers) -> Rc: ...


Reader = HeaderFunction[V, V2] | KeyHeaderFunction[K, V, V2]
Mapper = ValueFunction[V, V2] | KeyValueFunction[K, V, V2] | Reader[V, V2, K]
ErrorPolicy = Policy | str | None


class Stream(Node, Generic[K, V]):
    """A stream of records with a key and a value, each an independent fact."""

    def map(
        self,
        function: Callable[[K, V], tuple[K2, V2] | Awaitable[tuple[K2, V2]]]
        | KeyHeaderFunction[K, V, tuple[K2, V2]],
        *,
        key: Any = None,
        type: Any = None,
        on_error: ErrorPolicy = None,
    ) -> Stream[K2, V2]:
        """Map each record to another key and value: function(key, value) -> (key, value).

        As in `map_values`, `flat_map`, `filter` and `peek`, a function with an argument
        `*, headers` is given the headers of the record, pairs of a name and bytes.
        """
        call = pair_call_of(function, "map", awaits=True, gives_headers=True)
        kinds = pair_types(result_type(call, self._step.key_type, self._step.value_type))
        return Stream(
            self._graph,
            self._added(
                f"map({call})",
                stateless("map", call, op.MapPairs(call)),
                key=kinds[0] if key is None else key,
                value=kinds[1] if type is None else type,
                on_error=on_error,
            ),
        )

    def select(self, *names: Any, on_error: ErrorPolicy = None, **columns: Any) -> Stream[K, Any]:
        """Make records of these fields: names of fields that stay, and name=expression."""
        operation = selection(self._step.value_type, names, columns)
        return self._selected("select", operation, on_error)

    def with_columns(self, *, on_error: ErrorPolicy = None, **columns: Any) -> Stream[K, Any]:
        """Add fields to each record, or replace them: name=expression over the record before."""
        operation = addition(self._step.value_type, columns)
        return self._selected("with_columns", operation, on_error)

    def _selected(self, what: str, operation: op.Select, on_error: ErrorPolicy) -> Stream[K, Any]:
        name = f"{what}({', '.join(name for name, _ in operation.columns):.60})"
        kind = result_record(operation)
        step = self._added(name, operation, value=kind, on_error=on_error)
        return Stream(self._graph, step)

    @overload
    def map_values(
        self, function: ValueFunction[V, Awaitable[V2]], **options: Unpack[StepOptions]
    ) -> Stream[K, V2]: ...
    @overload
    def map_values(
        self, function: KeyValueFunction[K, V, Awaitable[V2]], **options: Unpack[StepOptions]
    ) -> Stream[K, V2]: ...
    @overload
    def map_values(
        self, function: ValueFunction[V, V2], **options: Unpack[StepOptions]
    ) -> Stream[K, V2]: ...
    @overload
    def map_values(
        self, function: KeyValueFunction[K, V, V2], **options: Unpack[StepOptions]
    ) -> Stream[K, V2]: ...
    @overload
    def map_values(
        self, function: Reader[V, V2, K], **options: Unpack[StepOptions]
    ) -> Stream[K, V2]: ...
    @overload
    def map_values(self, function: Column, **options: Unpack[StepOptions]) -> Stream[K, Any]: ...
    def map_values(
        self, function: Any, *, type: Any = None, on_error: ErrorPolicy = None
    ) -> Stream[K, Any]:
        """Map each value to another; the key stays."""
        call = self._call(function, "map_values")
        kind = self._result(call) if type is None else type
        name = f"map_values({call})"
        return Stream(
            self._graph,
            self._added(
                name,
                stateless("map_values", call, op.MapValues(call)),
                value=kind,
                on_error=on_error,
            ),
        )

    def map_headers(
        self, function: Mapper[V, Headers, K], *, on_error: ErrorPolicy = None
    ) -> Stream[K, V]:
        """Give each record other headers: function(value, *, headers) returns pairs of a name and
        bytes. Key and value stay."""
        call = call_of(function, "map_headers", gives_headers=True)
        step = self._added(f"map_headers({call})", op.MapHeaders(call), on_error=on_error)
        return Stream(self._graph, step)

    @overload
    def flat_map(
        self, function: Reader[V, Iterable[V2], K], **options: Unpack[StepOptions]
    ) -> Stream[K, V2]: ...
    @overload
    def flat_map(
        self,
        function: ValueFunction[V, Iterable[V2] | Awaitable[Iterable[V2]]],
        **options: Unpack[StepOptions],
    ) -> Stream[K, V2]: ...
    @overload
    def flat_map(
        self,
        function: KeyValueFunction[K, V, Iterable[V2] | Awaitable[Iterable[V2]]],
        **options: Unpack[StepOptions],
    ) -> Stream[K, V2]: ...
    def flat_map(
        self, function: Any, *, type: Any = None, on_error: ErrorPolicy = None
    ) -> Stream[K, Any]:
        """Map each value to any number of values, under the same key."""
        call = call_of(function, "flat_map", awaits=True, gives_headers=True)
        kind = element_type(self._result(call)) if type is None else type
        name = f"flat_map({call})"
        return Stream(
            self._graph,
            self._added(
                name, stateless("flat_map", call, op.FlatMap(call)), value=kind, on_error=on_error
            ),
        )

    def flat_map_pairs(
        self,
        function: Callable[[K, V], Iterable[tuple[K2, V2]]],
        *,
        key: Any = None,
        type: Any = None,
        on_error: ErrorPolicy = None,
    ) -> Stream[K2, V2]:
        """Map each record to any number of (key, value) pairs."""
        call = pair_call_of(function, "flat_map_pairs")
        kinds = pair_types(element_type(self._result(call)))
        return Stream(
            self._graph,
            self._added(
                f"flat_map_pairs({call})",
                op.FlatMap(call, is_pairs=True),
                key=kinds[0] if key is None else key,
                value=kinds[1] if type is None else type,
                on_error=on_error,
            ),
        )

    def map_batch(
        self,
        function: Callable[[list[V]], Iterable[V2]],
        *,
        type: Any = None,
        on_error: ErrorPolicy = None,
    ) -> Stream[K, V2]:
        """Map values to others, a batch at a time: function(values) returns as many, as a list or
        an array. The result must not depend on how records are divided into batches."""
        if not callable(function):
            raise TopologyError(f"map_batch: expected a function, got {function!r:.80}")
        check_sync("map_batch", function)
        call = Call(function)
        kind = element_type(self._result(call)) if type is None else type
        name = f"map_batch({call})"
        return Stream(
            self._graph, self._added(name, op.MapBatch(function), value=kind, on_error=on_error)
        )

    def filter(
        self, predicate: Mapper[V, object, K] | Column, *, on_error: ErrorPolicy = None
    ) -> Stream[K, V]:
        """Keep the records for which the predicate holds."""
        call = self._call(predicate, "filter")
        step = self._added(
            f"filter({call})", stateless("filter", call, op.Filter(call)), on_error=on_error
        )
        return Stream(self._graph, step)

    def filter_not(
        self, predicate: Mapper[V, object, K] | Column, *, on_error: ErrorPolicy = None
    ) -> Stream[K, V]:
        """Keep the records for which the predicate does not hold."""
        call = self._call(predicate, "filter_not")
        operation = stateless("filter_not", call, op.Filter(call, is_negated=True))
        return Stream(self._graph, self._added(f"filter_not({call})", operation, on_error=on_error))

    def peek(self, function: Mapper[V, object, K], *, on_error: ErrorPolicy = None) -> Stream[K, V]:
        """Call a function on each record, and pass the record on."""
        call = call_of(function, "peek", awaits=True, gives_headers=True)
        step = self._added(
            f"peek({call})", stateless("peek", call, op.Peek(call)), on_error=on_error
        )
        return Stream(self._graph, step)

    def branch(
        self, *predicates: Mapper[V, object, K] | Column, on_error: ErrorPolicy = None
    ) -> list[Stream[K, V]]:
        """Send each record to the stream of the first predicate that holds. The last stream has the
        rest."""
        calls = tuple(self._call(each, "branch", awaits=False) for each in predicates)
        if not calls:
            raise TopologyError("branch: give at least one predicate")
        step = self._added("branch", op.Branch(calls), on_error=on_error)
        node = Node(self._graph, step)
        return [
            Stream(self._graph, node._added(f"{step.name}[{index}]", op.Arm(index)))
            for index in range(len(calls) + 1)
        ]

    def merge(self, *others: Stream[K, V]) -> Stream[K, V]:
        """Merge the records of several streams, in the order of arrival."""
        steps = [self._step, *(self._same_app(other, "merge") for other in others)]
        key = self._one_type([step.key_type for step in steps])
        value = self._one_type([step.value_type for step in steps])
        merged = Step(
            "merge",
            tuple(dict.fromkeys(step.name for step in steps)),
            op.Merge(),
            key,
            value,
            is_rekeyed=any(step.is_rekeyed for step in steps),
        )
        return Stream(self._graph, self._graph.add(merged))

    @overload
    def select_key(
        self, function: ValueFunction[V, Awaitable[K2]], **options: Unpack[StepOptions]
    ) -> Stream[K2, V]: ...
    @overload
    def select_key(
        self, function: KeyValueFunction[K, V, Awaitable[K2]], **options: Unpack[StepOptions]
    ) -> Stream[K2, V]: ...
    @overload
    def select_key(
        self, function: ValueFunction[V, K2], **options: Unpack[StepOptions]
    ) -> Stream[K2, V]: ...
    @overload
    def select_key(
        self, function: KeyValueFunction[K, V, K2], **options: Unpack[StepOptions]
    ) -> Stream[K2, V]: ...
    @overload
    def select_key(self, function: Column, **options: Unpack[StepOptions]) -> Stream[Any, V]: ...
    def select_key(
        self, function: Any, *, type: Any = None, on_error: ErrorPolicy = None
    ) -> Stream[Any, V]:
        """Give each record another key. Later state is in the partition of the new key."""
        call = self._call(function, "select_key")
        kind = self._result(call) if type is None else type
        name = f"select_key({call})"
        return Stream(
            self._graph,
            self._added(
                name, stateless("select_key", call, op.SelectKey(call)), key=kind, on_error=on_error
            ),
        )

    def process(
        self,
        make: Callable[[Context], Any],
        *,
        name: str | None = None,
        stores: Stores = (),
        key: Any = NO_TYPE,
        type: Any = Any,
        on_error: ErrorPolicy = None,
    ) -> Stream[Any, Any]:
        """Pass records to an operator of your own: make(context) has process(record).

        Give `key=` if it may change keys. `stores` are StateStores, which several operators may
        share, and tables, whose rows it reads. They are those of the partition of the record's key;
        a global table or store is there in full.
        """
        step = process_step(self, UserOperator(make, stores, name), (key, type), on_error=on_error)
        return Stream(self._graph, step)

    def repartition(
        self,
        name: str,
        *,
        partitions: int | None = None,
        partitioner: Callable[..., int] | None = None,
    ) -> Stream[K, V]:
        """Send the records through a topic of the app, to the partition of their key."""
        if partitions is not None and partitions < 1:
            raise TopologyError(f"repartition {name}: partitions={partitions} must be at least 1")
        operation = op.Repartition(
            f"{self._graph.app}-{self._graph.claim_store(name, 'repartition')}-repartition",
            partitions,
            None if partitioner is None else call_of(partitioner, "repartition"),
            keeps_null_keys=True,
        )
        before = self._step
        step = Step(
            f"{name}-repartition", (before.name,), operation, before.key_type, before.value_type
        )
        return Stream(self._graph, self._graph.add(step))

    @overload
    def group_by(
        self, function: ValueFunction[V, Awaitable[K2]], **options: Unpack[StepOptions]
    ) -> Grouped[K2, V]: ...
    @overload
    def group_by(
        self, function: KeyValueFunction[K, V, Awaitable[K2]], **options: Unpack[StepOptions]
    ) -> Grouped[K2, V]: ...
    @overload
    def group_by(
        self, function: ValueFunction[V, K2], **options: Unpack[StepOptions]
    ) -> Grouped[K2, V]: ...
    @overload
    def group_by(
        self, function: KeyValueFunction[K, V, K2], **options: Unpack[StepOptions]
    ) -> Grouped[K2, V]: ...
    @overload
    def group_by(self, function: Column, **options: Unpack[StepOptions]) -> Grouped[Any, V]: ...
    def group_by(
        self, function: Any, *, type: Any = None, on_error: ErrorPolicy = None
    ) -> Grouped[Any, V]:
        """Group the records by a new key."""
        return self.select_key(function, type=type, on_error=on_error).group_by_key()

    def group_by_key(self) -> Grouped[K, V]:
        """Group the records by their key."""
        return Grouped(self._graph, self._step)

    def join(
        self,
        other: Stream[Any, Any] | Table[Any, Any] | GlobalRows,
        function: Joiner | None = None,
        *,
        within: JoinWindows | Duration | None = None,
        **options: Unpack[JoinOptions],
    ) -> Stream[K, Any]:
        """Join records with those of a stream that are close in time, or with rows of a table.

        `function(left, right)` or `function(key, left, right)` makes the result; a pair if not
        given. `within` is for streams, `key` selects the row of a global table. A versioned table
        is looked up as of the record's time; `grace` waits for rows that arrive late.
        """
        return self._joined(JoinKind.INNER, other, function, within, options)

    def left_join(
        self,
        other: Stream[Any, Any] | Table[Any, Any] | GlobalRows,
        function: Joiner | None = None,
        *,
        within: JoinWindows | Duration | None = None,
        **options: Unpack[JoinOptions],
    ) -> Stream[K, Any]:
        """Join as `join` does; a record without a match comes out with None on the right."""
        return self._joined(JoinKind.LEFT, other, function, within, options)

    def outer_join(
        self,
        other: Stream[Any, Any],
        function: Joiner | None = None,
        *,
        within: JoinWindows | Duration,
        name: str | None = None,
        on_error: ErrorPolicy = None,
    ) -> Stream[K, Any]:
        """Join two streams as `join` does; None stands for a missing match on either side."""
        options = JoinOptions(name=name, on_error=on_error)
        return self._joined(JoinKind.OUTER, other, function, within, options)

    def _joined(
        self,
        kind: JoinKind,
        other: Stream[Any, Any] | Table[Any, Any] | GlobalRows,
        function: Joiner | None,
        span: JoinWindows | Duration | None,
        options: JoinOptions,
    ) -> Stream[K, Any]:
        operator = "join" if kind is JoinKind.INNER else f"{kind.value}_join"
        check_options(operator, options, JoinOptions)
        step = self._join_step((kind, operator), other, function, span, options)
        return Stream(self._graph, joins.failing(self._graph, step, options.get("on_error")))

    def _join_step(
        self,
        how: tuple[JoinKind, str],
        other: Stream[Any, Any] | Table[Any, Any] | GlobalRows,
        function: Joiner | None,
        span: JoinWindows | Duration | None,
        options: JoinOptions,
    ) -> Step:
        kind, operator = how
        key, grace, name = options.get("key"), options.get("grace"), options.get("name")
        if not isinstance(other, GlobalRows | Stream | Table):
            raise TopologyError(
                f"{operator}: a stream joins a stream, a table or a global table, not {other!r:.80}"
            )
        if isinstance(other, GlobalRows):
            return joins.join_global(self, other, kind, function, key)
        joins.same_app((self, other), operator)
        if key is not None:
            raise TopologyError(
                f"{operator}: key=... is for global and lake tables; use select_key before"
            )
        if isinstance(other, Table):
            if span is not None:
                raise TopologyError(f"{operator}: within=... is for two streams, not for a table")
            return joins.join_table((self, other), kind, function, name, grace)
        if grace is not None:
            raise TopologyError(f"{operator}: for two streams write within=within(..., grace=...)")
        return joins.join_streams((self, other), kind, function, span, name)

    def to(
        self,
        topic: str | Callable[..., str],
        *,
        key: Any = None,
        type: Any = None,
        partitioner: Callable[..., int | None] | None = None,
        on_error: ErrorPolicy = None,
    ) -> None:
        """Write the records to a topic, or to the topic that a function returns for each record."""
        before = self._step
        key_type = before.key_type if key is None else key
        operation = op.Sink(
            topic if isinstance(topic, str) else None,
            codec_for(key_type),
            codec_for(before.value_type if type is None else type),
            None if isinstance(topic, str) else call_of(topic, "to"),
            None if partitioner is None else call_of(partitioner, "to"),
            partitioning=result_partitioning(key_type),
        )
        self._added(
            f"to({topic if isinstance(topic, str) else '...'})", operation, on_error=on_error
        )

    def reply(self, *, type: Any = None, on_error: ErrorPolicy = None) -> None:
        """Send each record to the topic in the headers of the request that it was made of, as its
        reply (`Asker`, `Streams.ask`). Records of no request are left out.

        The topic must be one of `Streams(reply_topics=...)`. With `on_error="reply"`, of the app or
        a step, a function that fails is a reply, too: its error is raised where the request waits.
        """
        before = self._step
        kind = before.value_type if type is None else type
        operation = op.Reply(codec_for(before.key_type), codec_for(kind))
        self._added("reply", operation, on_error=on_error)

    def to_table(self, *, name: str, **options: Unpack[TableOptions]) -> Table[K, V]:
        """Return a table of the last value of each key; null deletes."""
        claimed = self._graph.claim_store(name, "to_table")
        parent = Node(self._graph, self._partitioned(claimed))
        step = parent._step
        types = (step.key_type, options.get("type", step.value_type))
        store = store_of(claimed, StoreKind.KEY_VALUE, types, options)
        operation = op.ToTable(store, emit_of(self._graph, options, "to_table"))
        added = parent._added(claimed, operation, is_table=True, on_error=options.get("on_error"))
        return Table(self._graph, added)

    def _call(self, function: Any, operator: str, *, awaits: bool = True) -> Call:
        """Return the call of a user's function, or of an expression over the values."""
        if isinstance(function, Column):
            return expression_call(function, self._step.value_type, operator)
        gives_headers = operator in ("map_values", "filter", "filter_not")
        return call_of(function, operator, awaits=awaits, gives_headers=gives_headers)

    def _result(self, call: Call) -> Any:
        return result_type(call, self._step.key_type, self._step.value_type)

    def _same_app(self, other: Node, operator: str) -> Step:
        if not isinstance(other, Stream):
            raise TopologyError(f"{operator}: it takes streams, not {other!r:.80}")
        if other._graph is not self._graph:
            raise TopologyError(
                f"{operator}: the streams belong to two apps: "
                f"{self._graph.app} and {other._graph.app}"
            )
        return other._step

    @staticmethod
    def _one_type(kinds: list[Any]) -> Any:
        return kinds[0] if all(kind == kinds[0] for kind in kinds) else Any
