"""Check the engine of an app, and the settings that say where and how it runs there. No IO.

An app on Spark has the keys with which Spark connectors are deployed: `spark.master`,
`spark.conf.NAME` and `checkpoint.location`. Their names are checked with the app's other settings,
by `moldau streams explain`.
"""

from __future__ import annotations

from collections.abc import Iterator

from moldau.config.file_problems import Problem, warning
from moldau.config.yaml_tree import Node
from moldau.pipeline.pipeline import CHECKPOINT, App
from moldau.pipeline.references import has_reference


def check_engine(app: App, root: Node) -> Iterator[Problem]:
    """Return what is wrong with the engine, the processes and the place of an app."""
    where = ("topologies", app.name)
    settings = (*where, "settings")
    if not app.is_on_spark:
        for name in app.settings:
            if name.startswith("spark.") or name == CHECKPOINT:
                text = f"it is for apps on Spark: leave it out, or add engine: spark to {app.name}"
                yield Problem(root.line_at((*settings, name)), f"{_named(app, name)}: {text}")
        return
    from moldau.spark.masters import is_master

    if app.workers > 1:
        text = "Spark has executors: leave it out, and give spark.master"
        yield Problem(root.line_at((*where, "workers")), f"topologies.{app.name}.workers: {text}")
    master = app.settings.get("spark.master", "local[*]")
    if not has_reference(master) and not is_master(master):
        text = (
            "this is no Spark master: use local[2], local[*], spark://host:7077, k8s://... or "
            f"yarn, not {master!r}"
        )
        yield Problem(
            root.line_at((*settings, "spark.master")), f"{_named(app, 'spark.master')}: {text}"
        )
    elif not master.startswith("local") and app.kept_checkpoint is None:
        yield warning(
            root.line_at((*settings, "spark.master")),
            f"{_named(app, 'spark.master')}: the executors must reach the pipeline's data "
            f"directory, where the checkpoint is: give a shared one as {CHECKPOINT}",
        )
    checkpoint = app.kept_checkpoint or ""
    if "://" in checkpoint.removeprefix("file://"):
        yield Problem(
            root.line_at((*settings, CHECKPOINT)),
            f"{_named(app, CHECKPOINT)}: it must be a directory that the driver and all executors "
            f"reach as a path, not {checkpoint!r}",
        )


def _named(app: App, name: str) -> str:
    return f"topologies.{app.name}.settings.{name}"
