"""`moldau new`: a small project that runs with `moldau dev` and has a test.

In the texts of the files `NAME` and `MODULE` stand for the project's names. A folder that has files
is left as it is.
"""

from __future__ import annotations

import keyword
import sys
from argparse import ArgumentParser, Namespace
from typing import Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.new_shop import FILES as SHOP
from moldau.cli.summaries import SUMMARIES
from moldau.deferred import deferred_pattern

KINDS: Final = {
    "stream": "a Streams app that counts words",
    "connector": "a source connector of your own",
    "pipeline": "a pipeline: a file, an app, and a file of results",
    "shop": "a pipeline with databases, a join and a window",
}
_NAME: Final = deferred_pattern(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")
_NAME_CHARACTERS_MAX: Final = 64
_TAKEN: Final = frozenset(("moldau", "pytest", "hatchling", "test", "tests"))

_PROJECT: Final = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "NAME"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["moldau"]

[project.optional-dependencies]
test = ["pytest"]
ENTRY
[tool.hatch.build.targets.wheel]
only-include = ["MODULE.py"]

[tool.pytest.ini_options]
pythonpath = ["."]

# What `moldau dev` makes and runs.
[tool.moldau.dev]
"""
_IGNORED: Final = ".moldau/\n__pycache__/\n*.db\n"

_STREAM: Final = '''\
"""Counts the words of the topic `lines`."""

from moldau.streams import Streams

app = Streams("NAME")
(
    app.stream("lines", str)
    .flat_map(str.split)
    .group_by(lambda word: word)
    .count(name="counts")
    .changes()
    .to("counts")
)
'''
_STREAM_TEST: Final = '''\
"""The app on two partitions, in virtual time and without a broker."""

from MODULE import app


def test_words_are_counted():
    driver = app.test(partitions=2)
    driver.pipe("lines", "to be or not to be")
    counts = {record.key: record.value for record in driver.read("counts")}
    assert counts == {"to": 2, "be": 2, "or": 1, "not": 1}
'''
_STREAM_README: Final = """\
# NAME

A Streams app that counts words. `MODULE.py` is the app, `test_MODULE.py` its test.

    pip install -e '.[test]' && pytest
    moldau dev

`moldau dev` runs a broker and the app, and starts the app again when you save a file. In another
terminal:

    echo "to be or not to be" | moldau produce lines
    moldau consume counts --keys
"""

_CONNECTOR: Final = '''\
"""A source connector: it writes a number every so often, and goes on where it was."""

import threading

from moldau.connect import ConfigModel, SourceConnector, SourceRecord, SourceTask, key


class NumbersConfig(ConfigModel):
    topic: str = key("topic", doc="The topic for the numbers.", importance="high")
    every_ms: int = key("every.ms", 500, doc="The time between two numbers.", ge=1)


class NumbersTask(SourceTask):
    def start(self, props):
        self.config = NumbersConfig.of(props)
        self.stopped = threading.Event()
        stored = self.context.offset_storage_reader.offset({})
        self.last = stored["last"] if stored else 0

    def poll(self):
        if self.stopped.wait(self.config.every_ms / 1000):
            return []
        self.last += 1
        value = {"number": self.last}
        return [SourceRecord({}, {"last": self.last}, self.config.topic, value=value)]

    def stop(self):
        self.stopped.set()


class NumbersConnector(SourceConnector):
    config_model, task = NumbersConfig, NumbersTask
'''
_CONNECTOR_TEST: Final = '''\
"""The task, without a worker."""

from types import SimpleNamespace

from MODULE import NumbersTask


def started(stored):
    task = NumbersTask()
    reader = SimpleNamespace(offset=lambda partition: stored)
    task.context = SimpleNamespace(offset_storage_reader=reader)
    task.start({"topic": "numbers", "every.ms": "1"})
    return task


def test_numbers_follow_each_other():
    task = started(None)
    numbers = [record.value["number"] for _ in range(3) for record in task.poll()]
    assert numbers == [1, 2, 3]


def test_a_restart_goes_on_after_the_stored_offset():
    assert started({"last": 41}).poll()[0].value == {"number": 42}
'''
_CONNECTOR_CONFIG: Final = """\
{
  "name": "NAME",
  "config": {
    "connector.class": "CLASS",
    "topic": "numbers",
    "every.ms": "500",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false"
  }
}
"""
_CONNECTOR_README: Final = """\
# NAME

A source connector. `MODULE.py` has its settings and its task, `connector.json` the config that
runs.

    pip install -e '.[test]' && pytest
    moldau dev

A worker finds the connector by its entry point, so the project must be installed. `moldau dev` runs
a broker and a worker with the connector, and starts it again when you save a file. Look at the
records:

    moldau consume numbers
"""

_OF_PIPELINE: Final = _PROJECT.replace("ENTRY\n", "\n") + 'pipeline = "pipeline.yaml"\n'
_PIPELINE: Final = """\
pipeline: NAME

worker:
  settings:
    key.converter: StringConverter
    value.converter: StringConverter

topics:
  lines: {partitions: 2}
  counts: {partitions: 2}

sources:
  read-lines:
    connector.class: FileStreamSource
    file: input.txt
    topic: lines

topologies:
  count-words:
    app: MODULE:app

sinks:
  write-counts:
    connector.class: FileStreamSink
    topics: counts
    file: counts.txt
"""
_PIPELINE_APP: Final = _STREAM.replace(
    '.changes()\n    .to("counts")',
    '.changes()\n    .map_values(lambda word, count: f"{word} {count}")\n    .to("counts")',
)
_PIPELINE_TEST: Final = '''\
"""The app in virtual time, and the file of the pipeline."""

import subprocess
import sys

from MODULE import app


def test_words_are_counted():
    driver = app.test(partitions=2)
    driver.pipe("lines", "to be or not to be")
    assert {record.value for record in driver.read("counts")} == {"to 2", "be 2", "or 1", "not 1"}


def test_the_file_has_no_mistakes():
    subprocess.run([sys.executable, "-m", "moldau", "pipeline", "lint"], check=True)
'''
_PIPELINE_README: Final = """\
# NAME

A pipeline: `input.txt` -> topic `lines` -> the app in `MODULE.py` -> topic `counts` ->
`counts.txt`. `pipeline.yaml` says so.

    pip install -e '.[test]' && pytest
    moldau dev

`moldau dev` runs a broker and the pipeline, and starts the pipeline again when you save a file.
Append a line to `input.txt`, and look at `counts.txt` or at the topic:

    moldau consume counts
"""


def files_of(kind: str, name: str) -> dict[str, str]:
    """Return the texts of a new project by their paths."""
    module = name.replace("-", "_")
    class_name = "".join(each.capitalize() for each in module.split("_")) + "Source"
    made = {
        "stream": _stream,
        "connector": lambda: _connector(module, class_name),
        "pipeline": _pipeline,
        "shop": _shop,
    }[kind]()
    names = {"NAME": name, "MODULE": module, "CLASS": class_name}
    found = {}
    for path, text in {**made, ".gitignore": _IGNORED}.items():
        for word, put in names.items():
            path, text = path.replace(word, put), text.replace(word, put)
        found[path] = text
    return found


def _stream() -> dict[str, str]:
    return {
        "pyproject.toml": _PROJECT.replace("ENTRY\n", "\n")
        + 'app = "MODULE:app"\ntopics = {lines = 2, counts = 2}\n',
        "README.md": _STREAM_README,
        "MODULE.py": _STREAM,
        "test_MODULE.py": _STREAM_TEST,
    }


def _connector(module: str, class_name: str) -> dict[str, str]:
    entry = (
        f'\n[project.entry-points."moldau.connectors"]\n{class_name} = "MODULE:NumbersConnector"'
    )
    return {
        "pyproject.toml": _PROJECT.replace("ENTRY", f"{entry}\n")
        + 'connectors = ["connector.json"]\ntopics = {numbers = 2}\n',
        "README.md": _CONNECTOR_README,
        "MODULE.py": _CONNECTOR,
        "connector.json": _CONNECTOR_CONFIG,
        "test_MODULE.py": _CONNECTOR_TEST,
    }


def _pipeline() -> dict[str, str]:
    return {
        "pyproject.toml": _OF_PIPELINE,
        "README.md": _PIPELINE_README,
        "pipeline.yaml": _PIPELINE,
        "MODULE.py": _PIPELINE_APP,
        "test_MODULE.py": _PIPELINE_TEST,
        "input.txt": "to be or not to be\n",
    }


def _shop() -> dict[str, str]:
    return {"pyproject.toml": _OF_PIPELINE, **SHOP}


class NewCommand:
    """The command `moldau new`."""

    summary = SUMMARIES["new"]

    def configure(self, parser: ArgumentParser, /) -> None:
        lines = "; ".join(f"{name}: {what}" for name, what in KINDS.items())
        parser.add_argument("kind", choices=tuple(KINDS), help=lines)
        parser.add_argument("name", metavar="NAME", help="of the project, as word-count")
        parser.add_argument("--dir", metavar="DIR", help="the project's folder; default: NAME")

    def run(self, arguments: Namespace, context: Context, /) -> int:
        from moldau.runtime.places import absolute_path
        from moldau.runtime.real_files import RealFiles

        name = checked_name(arguments.name)
        shown = arguments.dir or name
        folder = absolute_path(shown)
        files = RealFiles()
        if files.exists(folder) and files.list(folder):
            raise UsageError(f"{shown} exists and is not empty: choose another NAME, or --dir")
        files.make_dirs(folder)
        made = files_of(arguments.kind, name)
        for path, text in made.items():
            with files.open(f"{folder}/{path}", "create") as file:
                file.append(text.encode())
        context.out.write(
            f"made {shown}: {', '.join(made)}\n"
            f"Try: cd {shown}\n"
            "     pip install -e '.[test]'\n"
            "     pytest\n"
            "     moldau dev\n"
        )
        return Exit.DONE


def checked_name(name: str) -> str:
    """Return the name if it can be that of a project and, with `_` for `-`, of a module."""
    module = name.replace("-", "_")
    if not _NAME.fullmatch(name) or len(name) > _NAME_CHARACTERS_MAX:
        raise UsageError(
            f"{name!r} is no name of a project: lower-case letters, digits, and - between them"
        )
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or module in _TAKEN:
        raise UsageError(f"{name} is the name of another module of Python: choose another one")
    return name


command = NewCommand()
