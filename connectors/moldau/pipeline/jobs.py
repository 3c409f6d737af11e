"""Jobs of a pipeline: PySpark scripts, and folders of Spark Declarative Pipelines. No IO."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Final

from moldau.config.file_problems import Problem, nearest
from moldau.config.yaml_tree import Node, parse
from moldau.errors import ConfigError
from moldau.pipeline.data_directory import last_error_in
from moldau.pipeline.pipeline import Job
from moldau.pipeline.references import has_reference
from moldau.pipeline.sections import JobSection

_CONF: Final = "spark.conf."
_KEYS: Final = ("spark.deploy", "spark.master", "spark.remote", "spark.packages")
_DEPLOYS: Final = ("local", "remote")
_SPEC_KEYS: Final = (
    "name", "storage", "libraries", "catalog", "database", "schema", "configuration",
)  # fmt: skip
"""The keys of a spec. It needs the first three."""

_TRACEBACK: Final = re.compile(r"^Traceback \(most recent call last\):$", re.MULTILINE)
_RAISED: Final = re.compile(
    r"^(?:[\w.]+\.(\w+)|(\w+(?:Error|Exception|Interrupt|Warning)))(?:: (.+))?$", re.MULTILINE
)
_OF_QUERY: Final = re.compile(r".*terminated with exception: ")
_CONDITION_CODES: Final = re.compile(r"(?: SQLSTATE: \w+)+$")
_JAVA_IS_GONE: Final = ("ConnectionRefusedError", "ConnectionResetError", "Py4JNetworkError")
_SHOWN_MAX: Final = 500


def jobs_of(
    found: Mapping[str, JobSection], root: Node, base: str
) -> tuple[tuple[Job, ...], list[Problem]]:
    """Return the jobs of the file, and what is wrong with the others. Relative paths count from
    `base`."""
    jobs, problems = [], []
    for name, each in found.items():
        line = root.line_at(("jobs", name))
        path = each.folder or each.script
        if path is None or (each.folder and each.script):
            text = "name either its script or its folder of Spark Declarative Pipelines"
            problems.append(Problem(line, f"jobs.{name}: {text}"))
            continue
        job = Job(
            name,
            line,
            posixpath.join(base, path),
            tuple(each.reads),
            tuple(each.writes),
            each.group,
            tuple(each.arguments),
            each.config,
            is_folder=each.folder is not None,
            every_s=each.every,
        )
        jobs.append(job)
    return tuple(jobs), problems


def with_code(job: Job, read_text: Callable[[str], str]) -> Job:
    """Return the job with the digest of its script, or of the spec of its folder."""
    from moldau.spark.declarative import SPEC_FILES

    names = [posixpath.join(job.path, each) for each in SPEC_FILES] if job.is_folder else [job.path]
    for name in names:
        with suppress(OSError):
            return replace(job, code=sha256(read_text(name).encode()).hexdigest()[:8])
    return job


def check_job(job: Job, root: Node, read_text: Callable[[str], str]) -> Iterator[Problem]:
    """Yield the problems of a job's script or folder, and of its settings."""
    where = f"jobs.{job.name}"
    check = _spec_problems if job.is_folder else _script_problems
    line = root.line_at(("jobs", job.name, "folder" if job.is_folder else "script"))
    for text in check(job, read_text):
        yield Problem(line, f"{where}: {text}")
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


def _script_problems(job: Job, read_text: Callable[[str], str]) -> Iterator[str]:
    try:
        compile(read_text(job.path), job.path, "exec", dont_inherit=True)
    except OSError as error:
        yield f"{job.path}: {error.strerror or error}"
    except (SyntaxError, ValueError) as error:
        at = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        yield f"{job.path}{at}: {getattr(error, 'msg', error)}"


def _spec_problems(job: Job, read_text: Callable[[str], str]) -> Iterator[str]:
    """Yield what is wrong with the spec of a folder, as far as it can be seen without Spark."""
    from moldau.spark.declarative import SPEC_FILES

    found = {}
    for name in SPEC_FILES:
        with suppress(OSError):
            found[posixpath.join(job.path, name)] = read_text(posixpath.join(job.path, name))
    if len(found) != 1:
        what = "both specs" if found else "no spec"
        yield f"{job.path} has {what}: it needs one {SPEC_FILES[0]}"
        return
    ((path, text),) = found.items()
    try:
        spec, problems = parse(text, path, "it must be a mapping with name, storage and libraries")
    except ConfigError as error:
        yield str(error)
        return
    entries = spec.entries()
    for problem in problems:
        yield f"{path}:{problem.line}: {problem.text}"
    for key, node in entries.items():
        if key not in _SPEC_KEYS:
            known = f"{nearest(key, _SPEC_KEYS)} (known: {', '.join(_SPEC_KEYS)})"
            yield f"{path}:{node.line}: a spec has no key {key}{known}"
    for key in _SPEC_KEYS[:3]:
        if key not in entries or not entries[key].value:
            yield f"{path}: {key} is missing: add it"


def _contradictions(job: Job, root: Node, where: str) -> Iterator[Problem]:
    from moldau.spark.reach import is_master

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


def job_error_in(log: str) -> str | None:
    """Return why a script has ended, by its log: its last error, which is the innermost one in the
    last traceback. What Spark logs before it only says that a query has ended."""
    at = max((each.start() for each in _TRACEBACK.finditer(log)), default=None)
    found = None if at is None else _RAISED.findall(log, at)
    if at is None or not found or "\nmoldau: " in log[at:]:
        return last_error_in(log)
    of_module, of_python, text = found[-1]
    name = of_module or of_python
    if name in _JAVA_IS_GONE and "py4j" in log[at:]:
        from moldau.connectors.spark.failures import cause_of

        return cause_of(ConnectionRefusedError(text))
    cause = _CONDITION_CODES.sub("", _OF_QUERY.sub("", text))
    is_of_spark = _OF_QUERY.match(text) is not None
    return (cause if is_of_spark else f"{name}: {cause}" if cause else name)[:_SHOWN_MAX]


def job_words(job: Job) -> list[str]:
    """Return the command line of a job."""
    words = ["spark", "pipelines" if job.is_folder else "run"]
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
    return [*words, job.path, *job.arguments]
