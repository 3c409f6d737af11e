"""Some parts of a pipeline, for `--select`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from moldau.cli.command import UsageError
from moldau.config.file_problems import nearest
from moldau.pipeline.pipeline import Pipeline


def selected(pipeline: Pipeline, names: Sequence[str]) -> Pipeline:
    """Return the pipeline with these parts alone, and the topics that they use; all of it without
    names. Raise UsageError for a name that no part has."""
    if not names:
        return pipeline
    known = [each.name for each in pipeline.writers]
    for name in names:
        if name not in known:
            raise UsageError(
                f"--select {name}: no part has that name{nearest(name, known)} (known: "
                f"{', '.join(known)})"
            )
    found = replace(
        pipeline,
        sources=tuple(each for each in pipeline.sources if each.name in names),
        apps=tuple(each for each in pipeline.apps if each.name in names),
        jobs=tuple(each for each in pipeline.jobs if each.name in names),
        sinks=tuple(each for each in pipeline.sinks if each.name in names),
        left_out=frozenset(known) - set(names),
    )
    if any(each.chooses_topics for each in found.writers):
        return found
    return replace(
        found,
        topics=tuple(
            each
            for each in pipeline.topics
            if found.writers_of(each.name) or found.readers_of(each.name)
        ),
    )
