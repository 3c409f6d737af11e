"""Connectors as a third party would write them, and the package that brings them to a worker.

`Numbers` gives records 0, 1, 2, ... to `count`, or fails on the way; `Lines` appends the values of
its records to a file, one a line; `Audited` gives nothing and finds tasks that run twice.
`Leased` is a config provider whose values are to be read again after a moment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

SOURCE = """
import fcntl
import os
import time

from moldau.connect.api import ConfigProvider, ProvidedValues
from moldau.connect import (
    ConfigModel, ConnectError, RetriableError, SinkConnector, SinkTask, SourceConnector,
    SourceRecord, SourceTask, key,
)


class NumbersConfig(ConfigModel):
    topic: str = key("topic", doc="Where the numbers go.")
    count: int = key("count", 10, doc="How many a task gives.", ge=0)
    pause_ms: int = key("pause.ms", 0, doc="How long to wait after each.", ge=0)
    crash_file: str = key("crash.file", "", doc="While it exists, every poll fails.")
    secret: str = key("secret", "", doc="Told to nobody.", kind="PASSWORD")
    start_file: str = key("start.file", "", doc="The connector's start waits for it.")


class Numbers(SourceConnector):
    config_model = NumbersConfig
    java_names = ("org.example.NumbersConnector",)

    def start(self, props):
        super().start(props)
        path = NumbersConfig.of(props).start_file
        while path and not os.path.exists(path):
            time.sleep(0.02)

    @classmethod
    def version(cls):
        return "1.2"

    def task_class(self):
        return NumbersTask

    def task_configs(self, max_tasks):
        return [{**self.props, "number": str(number)} for number in range(max_tasks)]


class NumbersTask(SourceTask):
    def start(self, props):
        self.config = NumbersConfig.of(props)
        self.partition = {"task": props["number"]}
        stored = self.context.offset_storage_reader.offset(self.partition)
        self.next = 0 if stored is None else stored["next"]

    def poll(self):
        if self.config.crash_file and os.path.exists(self.config.crash_file):
            raise ConnectError("the file " + self.config.crash_file + " is there", hint="remove it")
        if self.next >= self.config.count:
            return None
        self.next += 1
        if self.config.pause_ms:
            time.sleep(self.config.pause_ms / 1000)
        return [
            SourceRecord(
                self.partition, {"next": self.next}, self.config.topic, key=str(self.next - 1),
                value=f"{self.partition['task']}:{self.next - 1}",
            )
        ]

    def stop(self):
        pass


class Leased(ConfigProvider):
    def get(self, path, keys):
        with open(path) as file:
            value = file.read().strip()
        return ProvidedValues(dict.fromkeys(keys, value), 100)


class AuditedConfig(ConfigModel):
    folder: str = key("folder", doc="Where each task has a file that one process may lock.")
    topic: str = key("topic", "", doc="`broken`: what is left cannot be removed.")
    secret: str = key("secret", "", doc="Told to nobody.", kind="PASSWORD")


class Audited(SourceConnector):
    config_model = AuditedConfig

    def task_class(self):
        return AuditedTask

    def task_configs(self, max_tasks):
        return [{**self.props, "number": str(number)} for number in range(max_tasks)]

    def removed(self, props):
        config = AuditedConfig.of(props)
        for number in range(int(props["tasks.max"])):
            path = os.path.join(config.folder, f"{props['name']}-{number}.lock")
            with open(path, "a") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    raise RetriableError("a task still runs") from error
        if config.topic == "broken":
            raise ValueError("it cannot be removed: " + config.secret)
        with open(os.path.join(config.folder, "removed"), "a") as file:
            file.write(props["name"] + "\\n")


class AuditedTask(SourceTask):
    def start(self, props):
        config = AuditedConfig.of(props)
        name = props["name"] + "-" + props["number"]
        self.lock = open(os.path.join(config.folder, name + ".lock"), "a")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            with open(os.path.join(config.folder, "twice"), "a") as file:
                file.write(name + "\\n")
        with open(os.path.join(config.folder, "starts"), "a") as file:
            file.write(f"{name} {os.getpid()} {time.time()}\\n")

    def poll(self):
        time.sleep(0.1)
        return None

    def stop(self):
        self.lock.close()


class LinesConfig(ConfigModel):
    file: str = key("file", doc="Where the lines go.")
    refuse: str = key("refuse", "", doc="A value that cannot be written.")
    busy_file: str = key("busy.file", "", doc="While it exists, nothing can be written.")
    hang_file: str = key("hang.file", "", doc="While it exists, a put does not return.")
    start_file: str = key("start.file", "", doc="Start waits for it.")


class Lines(SinkConnector):
    config_model = LinesConfig

    def task_class(self):
        return LinesTask

    def task_configs(self, max_tasks):
        return [dict(self.props)] * max_tasks


class LinesTask(SinkTask):
    def start(self, props):
        self.config = LinesConfig.of(props)
        if self.config.start_file:
            open(self.config.start_file + ".waits", "w").close()
            while not os.path.exists(self.config.start_file):
                time.sleep(0.05)

    def put(self, records):
        if self.config.busy_file and os.path.exists(self.config.busy_file):
            raise RetriableError("busy")
        while self.config.hang_file and os.path.exists(self.config.hang_file):
            time.sleep(0.05)
        with open(self.config.file, "a") as file:
            for record in records:
                if self.config.refuse and record.value == self.config.refuse:
                    reporter = self.context.errant_record_reporter
                    if reporter is None:
                        raise ConnectError("refused: " + record.value)
                    reporter.report(record, ConnectError("refused: " + record.value))
                    continue
                file.write(f"{record.value}\\n")

    def stop(self):
        pass
"""

ENTRY_POINTS = """[moldau.connectors]
Numbers = thirdparty_numbers:Numbers
Lines = thirdparty_numbers:Lines
Audited = thirdparty_numbers:Audited

[moldau.config_providers]
Leased = thirdparty_numbers:Leased
"""


def install(directory: Path) -> Mapping[str, str]:
    """Lays the package into a directory; gives what the environment needs for it to be found."""
    (directory / "thirdparty_numbers.py").write_text(SOURCE)
    metadata = directory / "thirdparty_numbers-0.1.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: thirdparty-numbers\nVersion: 0.1\n"
    )
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    path = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": str(directory) if path is None else f"{directory}{os.pathsep}{path}"}
