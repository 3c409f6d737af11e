"""The requests of users, one method each: check it, write it to the log, answer it.

Invariants: only the leader carries out a request that changes configs; it answers after it has read
back what it wrote; each rejection is a `Refusal` with the HTTP status of Kafka Connect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.config.hiding import hidden
from moldau.connect.api import Connector, SinkConnector, SourceConnector
from moldau.connect.config.infos import ConfigInfos
from moldau.connect.herder.herder import Herder
from moldau.connect.herder.refusals import (
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    NotLeader,
    Rebalancing,
)
from moldau.connect.herder.signing import verify
from moldau.connect.installed.plugins import catalogue, connector_class, resolved
from moldau.connect.installed.secrets import masked, secret_values, unmasked
from moldau.connect.plugins import PluginNotFound, validate
from moldau.connect.storage.configs import ConnectorEntry, RestartRequest
from moldau.connect.storage.keys import TargetState, TaskId
from moldau.connect.storage.statuses import ConnectorState, Status
from moldau.connect.task.clients import refused_overrides, wrong_overrides
from moldau.connect.task.diagnosis import without
from moldau.connect.task.file_places import refused_files
from moldau.connect.task.token_places import refused_places
from moldau.connect.transforms.python import allowed_modules
from moldau.connect.worker.guarantee import guarantee_of
from moldau.connect.worker.promises import promise_problems, unused_boundaries
from moldau.errors import ConfigError, MoldauError

Json = dict[str, Any]


class Operations:
    """The requests that one worker serves."""

    def __init__(self, herder: Herder, scheme: str = "http") -> None:
        """`scheme` is what the workers' REST APIs speak."""
        self.herder = herder
        self._scheme = scheme

    # Reading

    def names(self) -> list[str]:
        """Return the names of the existing connectors."""
        return self.herder.configs.image.names()

    def entry(self, name: str) -> ConnectorEntry:
        """Return the stored connector. Raise NotFound if it does not exist."""
        return self._existing(name, f"Connector {name} not found")

    def _existing(self, name: str, otherwise: str) -> ConnectorEntry:
        found = self.herder.configs.image.get(name)
        if found is None:
            raise NotFound(otherwise)
        return found

    def config(self, name: str) -> dict[str, str]:
        """Return the config as it was posted, with the values of secrets hidden."""
        return masked(self.entry(name).config or {})

    def info(self, name: str) -> Json:
        """Return the ConnectorInfo of a connector."""
        entry = self.entry(name)
        tasks = self.herder.configs.image.tasks(name)
        return {
            "name": name,
            "config": masked(entry.config or {}),
            "tasks": [{"connector": name, "task": task.task} for task in tasks],
            "type": type_of(entry.config or {}),
        }

    def tasks(self, name: str) -> list[Json]:
        """Return each task with its config."""
        entry = self.entry(name)
        config = entry.config or {}
        return [
            {
                "id": {"connector": name, "task": task.task},
                "config": masked(entry.tasks[task.task], config),
            }
            for task in self.herder.configs.image.tasks(name)
        ]

    def status(self, name: str) -> Json:
        """Return the ConnectorStateInfo of a connector."""
        image = self.herder.statuses.image
        status = image.connectors.get(name)
        entry = self.herder.configs.image.get(name)
        if status is None and entry is None:
            raise NotFound(f"No status found for connector {name}")
        config = {} if entry is None or entry.config is None else entry.config
        tasks = self.herder.configs.image.tasks(name)
        known = image.tasks_of(name)
        return {
            "name": name,
            "connector": state_json(status or Status(ConnectorState.UNASSIGNED, "")),
            "tasks": [
                {"id": task.task, **state_json(known[task])} for task in tasks if task in known
            ],
            "type": type_of(config),
            "guarantee": guarantee_of(config, self.herder.settings),
        }

    def task_status(self, name: str, number: int) -> Json:
        """Return the TaskState of a task."""
        found = self.herder.statuses.image.tasks.get(TaskId(name, number))
        if found is None:
            raise NotFound(f"No status found for task {name}-{number}")
        return {"id": number, **state_json(found)}

    def topics(self, name: str) -> Json:
        """Return the topics that the connector has used."""
        self._check_tracking()
        used = self.herder.statuses.image.topics.get(name, set())
        return {name: {"topics": sorted(used)}}

    def _check_tracking(self) -> None:
        if self.herder.settings.get("topic.tracking.enable", "true").lower() == "false":
            raise Forbidden("Topic tracking is disabled.")

    async def reset_topics(self, name: str) -> None:
        """Forget the topics that the connector has used."""
        self._check_tracking()
        if self.herder.settings.get("topic.tracking.allow.reset", "true").lower() == "false":
            raise Forbidden("Topic tracking reset is disabled.")
        await self.herder.statuses.reset_topics(name)

    # Configs

    async def validate(
        self, config: Mapping[str, str | None], *, is_offline: bool = False
    ) -> ConfigInfos:
        """Return the ConfigInfos of a config. It runs on a thread: connectors may call servers."""
        restored, problems = unmasked(config, self._known(config.get("name")))
        try:
            infos = await self.herder.runtime.run_blocking(
                lambda: validated(restored, self.herder.settings, asks=not is_offline)
            )
        except (PluginNotFound, ConfigError) as error:
            raise BadRequest(str(error)) from error
        for problem in problems:
            infos.add_error(problem.key, problem.text)
        return infos

    async def put_config(
        self,
        name: str,
        config: Mapping[str, str | None],
        *,
        may_replace: bool,
        target: TargetState | None = None,
    ) -> bool:
        """Validate a config and write it to the log. Return True if the connector is new."""
        await self.check_leader()
        image = self.herder.configs.image
        if not may_replace and image.get(name) is not None:
            raise Conflict(f"Connector {name} already exists")
        self.herder.expect(config)
        infos = await self.validate(config)
        if infos.error_count:
            raise BadRequest(invalid_text(infos))
        if not await self.herder.removals.is_over(name):
            raise Conflict(
                f"Connector {name} was deleted and still removes what it leaves: try again in a "
                "moment"
            )
        await self.check_leader()
        is_new = image.get(name) is None
        if is_new and not may_replace and target is None:
            target = TargetState.STARTED
        restored, _ = unmasked(config, self._known(name))
        kept = {key: str(value) for key, value in restored.items()}
        await self.herder.configs.put_connector(name, kept, target)
        return is_new

    def _known(self, name: str | None) -> Mapping[str, str]:
        """Return the stored config of a connector; {} for a new one."""
        entry = self.herder.configs.image.get(name) if name else None
        return {} if entry is None or entry.config is None else entry.config

    async def patch_config(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Change some keys of a config. Null removes a key (KIP-477)."""
        config = {**(self.entry(name).config or {}), **changes}
        kept = {key: value for key, value in config.items() if value is not None}
        await self.put_config(name, kept, may_replace=True)

    def check_signature(self, body: bytes, signature: str | None, algorithm: str | None) -> None:
        """Check that a request comes from a worker: only workers may send task configs."""
        verify(self.herder.configs.image.session_key, body, signature, algorithm)

    async def take_tasks(self, name: str, configs: list[dict[str, str | None]]) -> None:
        """Store the task configs from the worker that runs the connector."""
        await self.check_leader()
        if self.entry(name).target is TargetState.STOPPED:
            return  # they were sent before the connector was stopped
        kept = [{key: value for key, value in each.items() if value is not None}
                for each in configs]  # fmt: skip
        await self.herder.fencing.put_tasks(name, kept)

    async def fence(self, name: str) -> None:
        """Fence the older tasks of a source connector, for a worker that starts a task of it."""
        await self.check_leader()
        await self.herder.fencing.fence(name)

    async def delete(self, name: str) -> None:
        """Delete a connector and its tasks. Stored offsets of a source stay, as in Kafka."""
        await self.check_leader()
        config = self.entry(name).config or {}
        await self.herder.configs.delete_connector(name)
        self.herder.removals.begin(name, config)

    async def set_target(self, name: str, target: TargetState) -> None:
        """Pause, resume or stop a connector. On return the new target state is in the log."""
        await self.check_leader()
        if self._existing(name, f"Unknown connector {name}").target is not target:
            await self.herder.configs.put_target(name, target)

    async def check_leader(self) -> None:
        """Wait for a short round. Raise NotLeader or Rebalancing unless this worker leads then."""
        membership = self.herder.membership
        if not self.herder.is_ready:
            raise Rebalancing("the worker is starting: try again in a moment")
        await membership.settled()
        if not membership.is_leader:
            url = membership.leader_url
            if url is None:
                raise Rebalancing(
                    "Cannot complete request momentarily due to no known leader URL, "
                    "likely because a rebalance was underway."
                )
            raise NotLeader(url)
        await self.herder.claim.take()

    # Restarts

    async def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> Json:
        """Request a restart. Return the ConnectorStateInfo with RESTARTING parts (KIP-745)."""
        await self.check_leader()
        self._existing(name, f"Unknown connector: {name}")
        status = self.status(name)
        await self.herder.request_restarts(RestartRequest(name, include_tasks, only_failed))
        parts = [status["connector"], *(status["tasks"] if include_tasks else ())]
        for part in parts:
            if not only_failed or part["state"] == ConnectorState.FAILED.value:
                part["state"] = ConnectorState.RESTARTING.value
                part.pop("trace", None)
        return status

    async def restart_task(self, name: str, number: int) -> None:
        """Restart a task of this worker. Raise NotLeader with the URL of another owner."""
        self._existing(name, f"Unknown connector: {name}")
        task = TaskId(name, number)
        if task not in self.herder.configs.image.tasks(name):
            raise NotFound(f"Unknown task: {task}")
        if not self.herder.is_here(task):
            owner = self.herder.statuses.image.tasks.get(task)
            if owner is None or owner.worker_id == self.herder.worker_id:
                raise Rebalancing(f"no worker runs {task} at present: try again in a moment")
            raise NotLeader(f"{self._scheme}://{owner.worker_id}/")
        self.herder.core.on_restart(task)
        self.herder.wake()

    # Plugins

    def type_of_plugin(self, name: str) -> type[Connector]:
        """Return the connector class of that name. Raise NotFound if there is none."""
        try:
            return connector_class({"connector.class": name})
        except ConfigError as error:
            raise NotFound(str(error)) from error


def validated(
    config: Mapping[str, str | None],
    worker: Mapping[str, str],
    *,
    asks: bool,
    is_dry_run: bool = False,
) -> ConfigInfos:
    """Validate a config with its references resolved. The ConfigInfos contain no resolved value."""
    given = {name: value for name, value in config.items() if value is not None}
    props, secrets = resolved(given, worker)
    secrets |= secret_values(props)
    places = {**refused_places(props, worker), **refused_files(props, worker)}
    asks = asks and not places  # a connector that is asked may use its clients and files
    with allowed_modules(worker):
        infos = validate(
            catalogue(), {**config, **props}, ask_connector=asks, is_dry_run=is_dry_run
        )
    for name, reason in {**refused_overrides(given, worker), **places}.items():
        infos.add_error(name, reason)
    for name, reason in wrong_overrides(props).items():
        infos.add_error(name, reason)
    for problem in promise_problems(props, worker):
        infos.add_error(problem.key, problem.text)
    infos.warnings += unused_boundaries(props, worker)
    for info in infos.configs:
        if given.get(info.name) != props.get(info.name):
            info.value = given[info.name]
        info.value = None if info.value is None else hidden(info.value)
        info.errors = [without(error, secrets) for error in info.errors]
    return infos


def state_json(status: Status) -> Json:
    """Return the state of a connector or task as JSON, with the trace if there is one."""
    found: Json = {"state": status.state.value, "worker_id": status.worker_id}
    if status.version is not None:
        found["version"] = status.version
    if status.trace:
        found["trace"] = status.trace
    return found


def type_of(config: Mapping[str, str]) -> str:
    """Return source, sink, or unknown."""
    try:
        kind = connector_class(config)
    except MoldauError:
        return "unknown"
    if issubclass(kind, SourceConnector):
        return "source"
    return "sink" if issubclass(kind, SinkConnector) else "unknown"


def invalid_text(infos: ConfigInfos) -> str:
    """Return the error message of an invalid config: every key with its reason."""
    lines = [
        "Connector configuration is invalid and contains the following "
        f"{infos.error_count} error(s):"
    ]
    lines += [f"{problem.key}: {problem.text}" if problem.key not in problem.text else problem.text
              for problem in infos.errors]  # fmt: skip
    lines.append(
        "You can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`"
    )
    return "\n".join(lines)
