"""What is asked of a worker's REST API, and how an answer is kept: without what differs each time.

Each step is a request; `until` repeats a GET until its answer holds, so that the ones behind find
the state that they are about.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.connect.processes import Worker, wait_until

SOURCE: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK: Final = "org.apache.kafka.connect.file.FileStreamSinkConnector"
PLUGIN_PACKAGES: Final = (
    "org.apache.kafka.connect.file.",
    "org.apache.kafka.connect.transforms.",
    "org.apache.kafka.connect.converters.",
    "org.apache.kafka.connect.json.",
    "org.apache.kafka.connect.storage.",
)


@dataclass(frozen=True, slots=True)
class Step:
    """A request, by a name of its own."""

    name: str
    method: str
    path: str
    body: Any = None
    until: Callable[[int, Any], bool] | None = field(default=None, compare=False)


def in_state(*states: str, code: int = 200) -> Callable[[int, Any], bool]:
    """The connector's state, then those of its tasks."""

    def holds(status: int, body: Any) -> bool:
        if status != code:
            return False
        found = [body["connector"]["state"], *(task["state"] for task in body["tasks"])]
        return found == list(states)

    return holds


def has_offset(status: int, body: Any) -> bool:
    """At least one is stored."""
    return status == 200 and bool(body["offsets"])


def has_no_topics(status: int, body: Any) -> bool:
    """Java's worker answers before it has read what it wrote."""
    return status == 200 and body["sink"]["topics"] == []


def conversation(folder: Path, topic: str) -> Iterator[Step]:
    """All steps, in their order."""
    (folder / "in").write_text("one\ntwo\n")
    source = {"connector.class": SOURCE, "tasks.max": "1", "file": f"{folder}/in", "topic": topic}
    sink = {"connector.class": SINK, "tasks.max": "1", "file": f"{folder}/out", "topics": topic}
    yield Step("nothing yet", "GET", "/connectors")
    yield Step("plugins", "GET", "/connector-plugins")
    yield Step("all plugins", "GET", "/connector-plugins?connectorsOnly=false")
    yield Step("settings of a plugin", "GET", "/connector-plugins/FileStreamSource/config")
    yield Step("settings of no plugin", "GET", "/connector-plugins/Nowhere/config")
    yield from _validations(source, sink)
    yield from _refusals(source)
    yield from _lives(source, sink)
    yield from _offsets(topic)
    yield from _loggers()
    for name in ("sink", "source"):
        yield Step(f"delete {name}", "DELETE", f"/connectors/{name}")
        yield Step(f"gone {name}", "GET", f"/connectors/{name}", until=lambda code, _: code == 404)
    yield Step("delete none", "DELETE", "/connectors/source")


def _validations(source: dict[str, str], sink: dict[str, str]) -> Iterator[Step]:
    path = "/connector-plugins/FileStreamSource/config/validate"
    yield Step("validate good", "PUT", path, {"name": "v", **source})
    yield Step("validate without topic", "PUT", path, {"name": "v", **without(source, "topic")})
    wrong = {"name": "v", **source, "tasks.max": "0", "errors.retry.timeout": "x",
             "errors.tolerance": "some", "batch.size": "many"}  # fmt: skip
    yield Step("validate wrong values", "PUT", path, wrong)
    parts = {"name": "v", **source, "transforms": "a,b", "transforms.a.type": "No.Such",
             "transforms.b.type": "org.apache.kafka.connect.transforms.RegexRouter"}  # fmt: skip
    yield Step("validate transforms", "PUT", path, parts)
    yield Step("validate another's", "PUT", path, {"name": "v", **sink})
    sink_path = "/connector-plugins/FileStreamSink/config/validate"
    both = {"name": "v", **sink, "topics.regex": "a.*"}
    yield Step("validate topics twice", "PUT", sink_path, both)
    yield Step("validate no topics", "PUT", sink_path, {"name": "v", **without(sink, "topics")})


def _refusals(source: dict[str, str]) -> Iterator[Step]:
    def post(name: str, body: Any) -> Step:
        return Step(name, "POST", "/connectors", body)

    yield post("create without name", {"config": source})
    yield post("create without class", {"name": "a", "config": {"topic": "t"}})
    yield post("create unknown class", {"name": "a", "config": {"connector.class": "Nowhere"}})
    yield post("create invalid", {"name": "a", "config": {**source, "tasks.max": "0"}})
    yield post("create bad state", {"name": "a", "config": source, "initial_state": "ASLEEP"})
    other = {**source, "name": "b"}
    yield Step("put another name", "PUT", "/connectors/a/config", other)
    for method, path in (
        ("GET", ""), ("GET", "/config"), ("GET", "/status"), ("GET", "/tasks"),
        ("GET", "/tasks/0/status"), ("GET", "/offsets"), ("POST", "/restart"),
        ("POST", "/tasks/0/restart"), ("PUT", "/pause"), ("PUT", "/resume"), ("PUT", "/stop"),
        ("DELETE", "/offsets"),
    ):  # fmt: skip
        yield Step(f"missing {method} {path}", method, f"/connectors/nobody{path}")
    yield Step("no such path", "GET", "/nowhere")
    yield Step("no such method", "PUT", "/connectors")


def _lives(source: dict[str, str], sink: dict[str, str]) -> Iterator[Step]:
    yield Step("create", "POST", "/connectors", {"name": "source", "config": source})
    status = "/connectors/source/status"
    yield Step("running", "GET", status, until=in_state("RUNNING", "RUNNING"))
    yield Step("create twice", "POST", "/connectors", {"name": "source", "config": source})
    yield Step("info", "GET", "/connectors/source")
    yield Step("config", "GET", "/connectors/source/config")
    yield Step("tasks", "GET", "/connectors/source/tasks")
    yield Step("task status", "GET", "/connectors/source/tasks/0/status")
    yield Step("no such task", "GET", "/connectors/source/tasks/9/status")
    yield Step("expanded", "GET", "/connectors?expand=status&expand=info")
    yield Step("expanded by nonsense", "GET", "/connectors?expand=nonsense")
    yield Step("pause", "PUT", "/connectors/source/pause")
    yield Step("paused", "GET", status, until=in_state("PAUSED", "PAUSED"))
    yield Step("resume", "PUT", "/connectors/source/resume")
    yield Step("resumed", "GET", status, until=in_state("RUNNING", "RUNNING"))
    yield Step("restart", "POST", "/connectors/source/restart")
    yield Step("restart all", "POST", "/connectors/source/restart?includeTasks=true")
    yield Step("restarted", "GET", status, until=in_state("RUNNING", "RUNNING"))
    # A restart goes through the config topic, so the states above may be those from before it.
    only_failed = "/connectors/source/restart?onlyFailed=true"
    running = in_state("RUNNING", "RUNNING", code=202)
    yield Step("restart failed", "POST", only_failed, until=running)
    yield Step("restart task", "POST", "/connectors/source/tasks/0/restart")
    yield Step("restart no task", "POST", "/connectors/source/tasks/9/restart")
    yield Step("running again", "GET", status, until=in_state("RUNNING", "RUNNING"))
    changed = {**source, "batch.size": "10"}
    yield Step("put config", "PUT", "/connectors/source/config", changed)
    patch = {"batch.size": None, "errors.log.enable": "true"}
    yield Step("patch config", "PATCH", "/connectors/source/config", patch)
    yield Step("patch none", "PATCH", "/connectors/nobody/config", patch)
    yield Step("patched", "GET", "/connectors/source/config")
    yield Step("put sink", "PUT", "/connectors/sink/config", sink)
    yield Step("sink runs", "GET", "/connectors/sink/status", until=in_state("RUNNING", "RUNNING"))


def _offsets(topic: str) -> Iterator[Step]:
    one, status = "/connectors/source/offsets", "/connectors/source/status"
    yield Step("offsets", "GET", one, until=has_offset)
    yield Step("sink offsets", "GET", "/connectors/sink/offsets", until=has_offset)
    yield Step("topics", "GET", "/connectors/sink/topics")
    yield Step("alter while running", "PATCH", one, {"offsets": []})
    yield Step("reset while running", "DELETE", one)
    yield Step("stop", "PUT", "/connectors/source/stop")
    yield Step("stopped", "GET", status, until=in_state("STOPPED"))
    yield Step("alter nothing", "PATCH", one, {"offsets": []})
    yield Step("alter nonsense", "PATCH", one, {"offsets": [{"partition": 3}]})
    yield Step("reset", "DELETE", one)
    yield Step("no offsets", "GET", one)
    yield Step("stop sink", "PUT", "/connectors/sink/stop")
    yield Step("sink stopped", "GET", "/connectors/sink/status", until=in_state("STOPPED"))
    where = {"kafka_topic": topic, "kafka_partition": 0}
    change = {"offsets": [{"partition": where, "offset": {"kafka_offset": 1}}]}
    yield Step("alter sink", "PATCH", "/connectors/sink/offsets", change)
    yield Step("altered sink", "GET", "/connectors/sink/offsets")
    strange = {"offsets": [{"partition": {"a": 1}, "offset": {"b": 1}}]}
    yield Step("alter sink strangely", "PATCH", "/connectors/sink/offsets", strange)
    yield Step("forget topics", "PUT", "/connectors/sink/topics/reset")
    forgotten = "/connectors/sink/topics"
    yield Step("forgotten topics", "GET", forgotten, until=has_no_topics)


def _loggers() -> Iterator[Step]:
    yield Step("level without level", "PUT", "/admin/loggers/root", {})
    yield Step("level that is none", "PUT", "/admin/loggers/root", {"level": "LOUD"})
    yield Step("no such logger", "GET", "/admin/loggers/no.such.logger")
    yield Step("cluster level", "PUT", "/admin/loggers/some.logger?scope=cluster",
               {"level": "INFO"})  # fmt: skip


def without(config: dict[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in config.items() if key != name}


def held(worker: Worker, folder: Path, topic: str) -> dict[str, Any]:
    """The answers by the names of the steps: `[status, body]`."""
    found: dict[str, Any] = {}
    for step in conversation(folder, topic):
        last: tuple[int, Any] = (0, None)

        def ask(step: Step = step) -> bool:
            nonlocal last
            last = worker.ask(step.method, step.path, step.body)
            return step.until is None or step.until(*last)

        wait_until(ask, f"{step.name}: {last}", 120)
        found[step.name] = [last[0], _kept(step, last[1])]
    text = json.dumps(found).replace(str(folder), "FOLDER").replace(topic, "TOPIC")
    return dict(json.loads(text.replace(worker.url.removeprefix("http://"), "WORKER")))


def _kept(step: Step, body: Any) -> Any:
    if "plugins" in step.name:
        return sorted(
            [each["class"], each["type"]]
            for each in body
            if each["class"].startswith(PLUGIN_PACKAGES)
        )
    if step.name.startswith("settings of a"):
        return {each["name"]: _definition(each) for each in body}
    if step.name.startswith("validate") and isinstance(body, dict) and "configs" in body:
        return _infos(body)
    return body


def _definition(each: dict[str, Any]) -> list[Any]:
    return [each["type"], each["required"], each["default_value"], each["importance"]]


def _infos(body: dict[str, Any]) -> dict[str, Any]:
    """The keys with their definitions, values, and whether they have errors, not the words."""
    configs = {
        each["value"]["name"]: [
            *(_definition(each["definition"]) if each["definition"] else []),
            each["value"]["value"],
            len(each["value"]["errors"]),
        ]
        for each in body["configs"]
    }
    return {"name": body["name"], "error_count": body["error_count"], "configs": configs}
