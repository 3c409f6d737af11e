"""A plan as text: the topics it reads and writes, and each step with its stores."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.streams.expressions.tree import text_of
from moldau.streams.plan import operations as op
from moldau.streams.plan.compile import stores_of, topics_of
from moldau.streams.plan.functions import name_of
from moldau.streams.plan.layout import assumed_layout
from moldau.streams.plan.operations import Step
from moldau.streams.plan.plan import GlobalTable, Plan, Program
from moldau.streams.plan.topics import topology_topic
from moldau.streams.problems import TopologyError
from moldau.streams.serdes.types import type_name


def topology_text(plan: Plan) -> str:
    """Return the sub-topologies with their topics and stores, and the topics that the app makes."""
    lines = [f"app {plan.app}"]
    for program in plan.programs:
        lines.append(f"  sub-topology {program.index}")
        lines.append(f"    reads   {', '.join(program.inputs)}")
        if program.outputs:
            lines.append(f"    writes  {', '.join(program.outputs)}")
        for store in program.stores:
            topic = store.changelog(plan.app) or "not logged"
            lines.append(f"    store   {store.name} ({store.kind.value}, {topic})")
        for group in program.copartitioned:
            lines.append(f"    equally partitioned: {', '.join(sorted(group))}")
    for table in plan.global_tables:
        lines.append(f"  {_global(table)}")
    for lake in plan.lake_tables:
        wanted = "" if lake.where is None else f" where {text_of(lake.where)}"
        read = f"{lake.format} {lake.path} by {lake.key}{wanted}"
        lines.append(f"  lake table {lake.name} reads {read}")
    made = [topic.name for topic in plan.repartitions] + list(plan.changelogs())
    lines.append("  topics of its own")
    lines += [f"    {name}" for name in (*made, topology_topic(plan.app))]
    return "\n".join(lines) + "\n"


def explain_text(plan: Plan, partitions: Mapping[str, int] | None = None) -> str:
    """Return every step in order, indented under the step that it follows, and the topics that the
    app makes on inputs with these partition counts, or why it cannot run on them."""
    lines = [f"app {plan.app}: {len(plan.programs)} sub-topologies"]
    for program in plan.programs:
        lines.append(f"sub-topology {program.index}: a task for each partition")
        explained: set[str] = set()
        for step in program.steps:
            if not step.parents:
                _explain(program, step, 1, lines, explained)
        if any(each.changelog(plan.app) for each in program.stores):
            kept = ", ".join(each.name for each in program.stores if each.changelog(plan.app))
            lines.append(f"  standbys, if num.standby.replicas asks for some, copy {kept}")
    lines += [f"{_global(table)}, all of it in each worker" for table in plan.global_tables]
    lines += _layout_lines(plan, partitions or {})
    return "\n".join(lines) + "\n"


def _global(table: GlobalTable) -> str:
    through = "" if table.source is None else f" through {name_of(table.source.make)}"
    return f"{table.kind} {table.store.name} reads {table.topic}{through}"


def _layout_lines(plan: Plan, partitions: Mapping[str, int]) -> list[str]:
    try:
        layout = assumed_layout(plan, partitions)
    except TopologyError as error:
        return [f"it cannot run: {error}"]
    inputs = ", ".join(
        f"{topic} {layout.counts[topic]}"
        for topic in layout.plan.source_topics()
        if topic in layout.counts
    )
    lines = [f"on inputs with partitions {inputs}:"] if inputs else []
    for program in layout.plan.programs:
        lines.append(f"  sub-topology {program.index}: tasks {layout.tasks(program)}")
    for topic in layout.internal:
        configs = "".join(f" {name}={value}" for name, value in sorted(topic.configs.items()))
        lines.append(f"  makes {topic.name}: partitions {topic.partitions}{configs}")
    return lines


def _explain(
    program: Program, step: Step, depth: int, lines: list[str], explained: set[str]
) -> None:
    indent = "  " * depth
    if step.name in explained:
        lines.append(f"{indent}-> {step.name} (above)")
        return
    explained.add(step.name)
    lines.append(f"{indent}{step.name}: {describe(step)}")
    for child in program.steps:
        if step.name in child.parents:
            _explain(program, child, depth + 1, lines, explained)


def describe(step: Step) -> str:
    """Return one line on a step: kind, topics read or written, types, stores and policy."""
    operation = step.operation
    parts = [operation.kind]
    if topics := topics_of(step):
        parts.append(f"of {', '.join(topics)}")
    if isinstance(operation, op.Sink):
        parts.append(f"to {operation.topic or 'a topic for each record'}")
    if isinstance(operation, op.Reply):
        parts.append("to the topic that the request names")
    if isinstance(operation, op.Select):
        columns = operation.columns
        made = [f"{name}={typed}" for name, typed in columns if str(typed) != name]
        parts.append(f"of {', '.join(name for name, _ in columns)}")
        parts += [f"where {', '.join(made)}"] if made else []
    windows = getattr(operation, "windows", None)
    if windows is not None:
        parts.append(f"in windows ({windows})")
    emit = getattr(operation, "emit", None)
    if isinstance(emit, op.Emit):
        parts.append(f"emits {_EMITS[emit]}")
    if isinstance(operation, op.Process) and operation.is_of_table:
        makes_rows = operation.output is op.ProcessOutput.ROWS
        parts.append("of changes, which makes rows" if makes_rows else "of changes")
    if looked_up := (*step.lookups, *getattr(operation, "global_tables", ())):
        parts.append(f"looks up {', '.join(looked_up)}")
    text = " ".join(parts)
    if not isinstance(operation, op.Sink | op.Reply):
        text += f" -> ({type_name(step.key_type)}, {type_name(step.value_type)})"
    if stores := stores_of(step):
        text += f" [{', '.join(store.name for store in stores)}]"
    if step.on_error is not None:
        text += f" on error: {step.on_error}"
    return text


_EMITS = {
    op.Emit.EVERY: "every update",
    op.Emit.COMMIT: "the last update of each key at a commit",
    op.Emit.CLOSE: "when a window is over",
}
