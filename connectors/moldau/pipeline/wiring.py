"""Check how topics connect sources, apps, jobs and sinks.

The rules: Each topic that the pipeline uses is listed under `topics`. Each topic that is read has a
writer, or is external. Records never run in a circle. The inputs of a join have equal numbers of
partitions. Each part, and each app id, has a name of its own. Each sink of Spark has a directory of
its own.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from moldau.config.file_problems import Problem, nearest, warning
from moldau.pipeline.including import SourceFiles
from moldau.pipeline.pipeline import App, Connector, Job, Pipeline


def check_wiring(pipeline: Pipeline, files: SourceFiles | None = None) -> list[Problem]:
    """Return the problems that break any of the rules. `files` name the place of a part that is in
    another file."""
    return [
        *_duplicate_names(pipeline, files),
        *_shared_directories(pipeline),
        *_undeclared(pipeline),
        *_unwritten(pipeline),
        *_unused(pipeline),
        *_circles(pipeline),
        *_join_problems(pipeline),
    ]


def _parts(pipeline: Pipeline) -> list[tuple[str, Connector | App | Job]]:
    found: list[tuple[str, Connector | App | Job]] = []
    found += [(f"sources.{each.name}", each) for each in pipeline.sources]
    found += [(f"topologies.{each.name}", each) for each in pipeline.apps]
    found += [(f"jobs.{each.name}", each) for each in pipeline.jobs]
    found += [(f"sinks.{each.name}", each) for each in pipeline.sinks]
    return found


def _duplicate_names(pipeline: Pipeline, files: SourceFiles | None) -> Iterator[Problem]:
    """Find parts with the same name, and apps with the same id: both name groups and offsets."""

    def place(line: int, other: int) -> str:
        """Where the other part is, if that is another file."""
        if files is None or files.at(line)[0] == files.at(other)[0]:
            return ""
        return f" in {files.place(other)}"

    seen: dict[str, tuple[str, int]] = {}
    for where, part in _parts(pipeline):
        if part.name in seen:
            first, line = seen[part.name]
            at = place(part.line, line)
            yield Problem(part.line, f"{where}: {first} has that name already{at}")
        seen.setdefault(part.name, (where, part.line))
    apps: dict[str, App] = {}
    for app in pipeline.apps:
        if app.plan is None:
            continue  # it cannot be imported, so its id is not known
        if app.plan.app in apps:
            other = apps[app.plan.app]
            text = f"topologies.{app.name}: the app id {app.plan.app} is that of "
            at = place(app.line, other.line)
            yield Problem(app.line, f"{text}topologies.{other.name} too{at}")
        apps.setdefault(app.plan.app, app)


def _shared_directories(pipeline: Pipeline) -> Iterator[Problem]:
    """Find sinks of Spark that write files or a Delta table into one directory: each of them notes
    there how far its own query is, and replaces or conflicts with what the other one writes."""
    seen: dict[str, Connector] = {}
    for sink in pipeline.sinks:
        path = sink.config.get("sink.path", "").strip()
        if sink.short_class != "SparkSink" or not path:
            continue
        front, _, rest = path.removeprefix("file://").rpartition("://")
        other = seen.setdefault(f"{front}://{posixpath.normpath(rest)}", sink)
        is_by_topic = "${topic}" in path and not set(sink.reads) & set(other.reads)
        if other is not sink and not is_by_topic:
            text = f"sinks.{other.name} writes into the directory {path} too: give each its own"
            yield Problem(sink.line, f"sinks.{sink.name}: {text}")


def _undeclared(pipeline: Pipeline) -> Iterator[Problem]:
    """Find topics that are used and not listed under `topics`."""
    known = [each.name for each in pipeline.topics]
    for where, part in _parts(pipeline):
        for verb, topics in (("reads", part.reads), ("writes", part.writes)):
            for topic in topics:
                if topic in known:
                    continue
                hint = nearest(topic, known)
                if isinstance(part, Connector) and topic == part.dead_letters:
                    text = f"{where} writes dead letters to {topic}, which is not under topics"
                    yield warning(part.line, f"{text}: the worker makes it{hint}")
                else:
                    text = f"{where} {verb} {topic}, which is not under topics{hint}"
                    yield Problem(part.line, text)


def _unwritten(pipeline: Pipeline) -> Iterator[Problem]:
    """Find topics that are read though nothing writes them."""
    unknown_writers = [each for each in _parts(pipeline) if each[1].chooses_topics]
    external = {each.name for each in pipeline.topics if each.is_external}
    known = {each.name for each in pipeline.topics}
    for where, part in _parts(pipeline):
        for topic in part.reads:
            if topic not in known or topic in external or pipeline.writers_of(topic):
                continue
            if unknown_writers:
                writer, other = unknown_writers[0]
                text = f"{where} reads {topic}; whether {writer} writes it is not known"
                yield warning(part.line, f"{text}: {_what_to_do(other)}")
            else:
                text = f"{where} reads {topic}, which nothing writes: add a source, or "
                yield Problem(part.line, f"{text}`external: true` to the topic")
        if isinstance(part, Connector) and part.pattern is not None:
            yield from _unmatched(where, part, pipeline)


def _what_to_do(writer: Connector | App | Job) -> str:
    if isinstance(writer, App):
        if writer.plan is None:
            return "it cannot be imported"
        return "it chooses topics by its records"
    return "name its topics in `writes` beside its `config`"


def _unmatched(where: str, sink: Connector, pipeline: Pipeline) -> Iterator[Problem]:
    try:
        pattern = re.compile(sink.pattern or "")
    except re.error:
        return  # Connect's own validation reports it
    if not any(pattern.fullmatch(each.name) for each in pipeline.topics):
        yield warning(sink.line, f"{where}: topics.regex matches no topic of this pipeline")


def _unused(pipeline: Pipeline) -> Iterator[Problem]:
    """Find topics that nothing reads or writes, unless some writer's topics are unknown."""
    if any(part.chooses_topics for part in pipeline.writers):
        return
    for topic in pipeline.topics:
        if not pipeline.writers_of(topic.name) and not pipeline.readers_of(topic.name):
            yield warning(topic.line, f"topics.{topic.name}: nothing reads or writes it")


def _circles(pipeline: Pipeline) -> Iterator[Problem]:
    """Find apps, jobs and sinks that read their own results over topics. Report each circle once.

    Dead letters do not count: they may be processed again."""
    parts: list[Connector | App | Job] = [*pipeline.apps, *pipeline.jobs, *pipeline.sinks]
    lines = {part.name: part.line for part in parts}
    after = {}
    for part in parts:
        dead = part.dead_letters if isinstance(part, Connector) else None
        topics = [each for each in part.writes if each != dead]
        readers = [reader for topic in topics for reader in pipeline.readers_of(topic)]
        after[part.name] = list(dict.fromkeys(readers))
    done: set[str] = set()

    def walk(name: str, path: list[str]) -> Iterator[list[str]]:
        if name in path:
            yield path[path.index(name) :]
            return
        if name in done:
            return
        for following in after[name]:
            yield from walk(following, [*path, name])
        done.add(name)

    for part in parts:
        for circle in walk(part.name, []):
            text = " -> ".join([*circle, circle[0]])
            yield Problem(lines[circle[0]], f"records run in a circle: {text}")


def _join_problems(pipeline: Pipeline) -> Iterator[Problem]:
    """Report the problem in an app's plan: joined topics with different numbers of partitions."""
    for app in pipeline.apps:
        if app.plan is not None and app.plan.problem is not None:
            yield Problem(app.line, f"topologies.{app.name}: {app.plan.problem}")
