"""Jobs of a pipeline: PySpark scripts, with the settings of the Spark connectors. No IO."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from moldau.config.file_problems import Problem, nearest
from moldau.config.yaml_tree import Node
from moldau.pipeline.pipeline import Job
from moldau.pipeline.references import has_reference
from moldau.pipeline.sections import JobSection

BOOTSTRAP: Final = "MOLDAU_BOOTSTRAP"
"""The environment variable in which a script finds the brokers."""
_CONF: Final = "spark.conf."
_KEYS: Final = ("spark.deploy", "spark.master", "spark.remote", "spark.packages")
_DEPLOYS: Final = ("local", "remote")


def jobs_of(found: Mapping[str, JobSection], root: Node, base: str) -> tuple[Job, ...]:
    """Return the jobs of the file. Relative paths of scripts count from `base`."""
    return tuple(
        Job(
            name,
            root.line_at(("jobs", name)),
            posixpath.join(base, each.script),
            tuple(each.reads),
            tuple(each.writes),
            each.group,
            tuple(each.arguments),
            each.config,
        )
        for name, each in found.items()
    )


def check_job(job: Job, root: Node, read_text: Callable[[str], str]) -> Iterator[Problem]:
    """Yield the problems of a job's script and settings."""
    where = f"jobs.{job.name}"
    try:
        compile(read_text(job.script), job.script, "exec", dont_inherit=True)
    except OSError as error:
        line = root.line_at(("jobs", job.name, "script"))
        yield Problem(line, f"{where}: {job.script}: {error.strerror or error}")
    except (SyntaxError, ValueError) as error:
        at = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        line = root.line_at(("jobs", job.name, "script"))
        yield Problem(line, f"{where}: {job.script}{at}: {getattr(error, 'msg', error)}")
    for key, value in job.config.items():
        line = root.line_at(("jobs", job.name, "config", key))
        if key not in _KEYS and not key.startswith(_CONF):
            known = f"{', '.join(_KEYS)}, {_CONF}NAME"
            text = f"{where}.config has no key {key}{nearest(key, _KEYS)} (known: {known})"
            yield Problem(line, text)
        elif has_reference(value):
            text = "cannot be a reference: other users can see a command; let the script read it"
            yield Problem(line, f"{where}.config.{key} {text}")
    yield from _contradictions(job, root, where)
    if not job.reads and not job.writes:
        yield Problem(job.line, f"{where}: name its topics in reads and writes")


def _contradictions(job: Job, root: Node, where: str) -> Iterator[Problem]:
    from moldau.spark.masters import is_master

    line = root.line_at(("jobs", job.name, "config", "spark.deploy"))
    deploy = job.config.get("spark.deploy", "local")
    if deploy not in _DEPLOYS:
        yield Problem(line, f"{where}.config.spark.deploy must be {' or '.join(_DEPLOYS)}")
    elif deploy == "remote":
        if "spark.remote" not in job.config:
            yield Problem(line, f"{where}.config: spark.deploy=remote needs spark.remote")
        for key in job.config:
            if key.startswith(_CONF) or key in ("spark.master", "spark.packages"):
                at = root.line_at(("jobs", job.name, "config", key))
                yield Problem(at, f"{where}.config.{key}: the server at spark.remote decides that")
    elif not is_master(master := job.config.get("spark.master", "local[*]")):
        line = root.line_at(("jobs", job.name, "config", "spark.master"))
        if not has_reference(master):
            yield Problem(line, f"{where}.config.spark.master: {master!r} is no Spark master")
    elif "spark.remote" in job.config:
        line = root.line_at(("jobs", job.name, "config", "spark.remote"))
        yield Problem(line, f"{where}.config.spark.remote needs spark.deploy: remote")


def job_words(job: Job) -> list[str]:
    """Return the command line of a job."""
    words = ["spark", "run"]
    if job.is_remote:
        words += ["--remote", job.config["spark.remote"]]
    else:
        words += ["--master", job.config.get("spark.master", "local[*]"), "--name", job.name]
        conf = {
            f"spark.{key.removeprefix(_CONF)}": value
            for key, value in job.config.items()
            if key.startswith(_CONF)
        }
        if packages := job.config.get("spark.packages"):
            conf["spark.jars.packages"] = packages
        for key, value in conf.items():
            words += ["--conf", f"{key}={value}"]
    return [*words, job.script, *job.arguments]
