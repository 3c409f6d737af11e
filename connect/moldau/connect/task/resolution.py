"""The configs of a task with their references resolved: what every runner begins with."""

from __future__ import annotations

from moldau.connect.installed.plugins import resolved
from moldau.connect.installed.secrets import secret_values
from moldau.connect.task.file_places import check_files
from moldau.connect.task.messages import TaskSpec
from moldau.connect.task.token_places import check_places
from moldau.deferred import dataclass


@dataclass(frozen=True, slots=True)
class ResolvedTask:
    """The connector's config, the task's and the worker's, and the secrets in them."""

    config: dict[str, str]
    task_config: dict[str, str]
    worker: dict[str, str]
    secrets: set[str]


def resolved_task(spec: TaskSpec) -> ResolvedTask:
    """Resolve the configs of a task. Raise ConfigError if a reference cannot be resolved, or if it
    would use a file, or one of its clients a place of tokens, that the worker does not allow."""
    config, secrets = resolved(spec.connector_config, spec.worker)
    task_config, of_task = resolved(spec.task_config, spec.worker)
    worker, of_worker = resolved(spec.worker, spec.worker)
    check_places({**config, **task_config}, worker)
    check_files({**config, **task_config}, worker)
    secrets = secrets | of_task | of_worker | secret_values(config)
    return ResolvedTask(config, task_config, worker, secrets)
