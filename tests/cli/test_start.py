"""What it costs to start a command: the modules that it imports, and its CPU beside bare Python.

Each command runs in a fresh process, against a real broker where it has one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from moldau.runtime.node_processes import free_ports
from moldau.testing import SyncEmbeddedBroker

ALLOWED = tomllib.loads((Path(__file__).parent / "start.toml").read_text(encoding="utf-8"))
TRIES = 12

_LISTED = """
import json, sys
before = set(sys.modules)
from moldau.cli import main
code = main(json.loads(sys.argv[1]))
print(json.dumps(sorted(set(sys.modules) - before)), file=sys.stderr)
exit(code)
"""
_MAIN = "import json, sys; from moldau.cli import main; exit(main(json.loads(sys.argv[1])))"


def imported_by(words: Sequence[str], directory: Path, *, code: int = 0) -> set[str]:
    """The modules that a fresh process of the command has imported at its end."""
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", _LISTED, json.dumps(words)],
        capture_output=True, text=True, check=False, timeout=60, cwd=directory,
    )  # fmt: skip
    assert done.returncode == code, done
    return set(json.loads(done.stderr.splitlines()[-1]))


def imported_by_broker(directory: Path) -> set[str]:
    """The modules of a broker's process, from its start until a signal has ended it."""
    at = f"localhost:{free_ports(1)[0]}"
    words = ["broker", "start", "--listen", at, "--data", str(directory), "--shards", "1"]
    with subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", _LISTED, json.dumps(words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=directory,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert "is up" in process.stdout.readline(), process.communicate()
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return set(json.loads(errors.splitlines()[-1]))


def too_many(imported: set[str], name: str) -> list[str]:
    """The modules that the command may not import; all of them if they are more than its bound."""
    allowed = ALLOWED[name]
    if len(imported) > allowed.get("most", len(imported)):
        return sorted(imported)
    ours = allowed["ours"]
    parents = {each.rsplit(".", count)[0] for each in ours for count in range(each.count(".") + 1)}
    standard = (*sys.stdlib_module_names, *allowed["others"])

    def is_allowed(module: str) -> bool:
        if starts(module, allowed["never"]):
            return False
        if module.split(".")[0] == "moldau":
            return module in parents or starts(module, ours)
        return module.startswith(("_cython", "_sysconfigdata")) or starts(module, standard)

    return sorted(each for each in imported if not is_allowed(each))


def starts(module: str, prefixes: Sequence[str]) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in prefixes)


def test_help_imports_no_command(tmp_path: Path) -> None:
    assert too_many(imported_by(["--help"], tmp_path), "help") == []


def test_topic_list_imports_what_lists_topics(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    words = ["topic", "list", "-b", moldau_broker.bootstrap_servers]

    assert too_many(imported_by(words, tmp_path), "topic_list") == []


def test_a_broker_starts_with_what_serves_its_first_requests(tmp_path: Path) -> None:
    assert too_many(imported_by_broker(tmp_path), "broker_start") == []


def test_more_modules_than_the_bound_are_all_named() -> None:
    imported = {f"moldau.cli.{number}" for number in range(ALLOWED["topic_list"]["most"] + 1)}

    assert too_many(imported, "topic_list") == sorted(imported)


def test_pipeline_status_imports_no_connector(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    """It neither validates the sink nor loads a driver."""
    (tmp_path / "pipeline.yaml").write_text(
        "pipeline: shop\n"
        "topics: {orders: {partitions: 1}}\n"
        "sinks:\n"
        "  stored:\n"
        "    config: {connector.class: JdbcSink, topics: orders, connection.url: 'sqlite:x.db'}\n"
    )
    words = ["pipeline", "status", "-b", moldau_broker.bootstrap_servers]

    assert too_many(imported_by(words, tmp_path, code=1), "pipeline_status") == []


def test_a_module_that_is_not_listed_is_found() -> None:
    imported = {"os", "moldau.cli.output", "moldau.streams.app", "sqlalchemy", "asyncio.events"}

    assert too_many(imported, "help") == ["asyncio.events", "moldau.streams.app", "sqlalchemy"]


def cpu_s(code: str, words: Sequence[str], environment: dict[str, str]) -> float:
    """The CPU seconds, user and system, of a fresh Python that runs this."""
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", code, json.dumps(words)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
    )  # fmt: skip
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


@pytest.mark.real
@pytest.mark.parametrize(("command", "times"), [("--help", 9), ("topic list", 17)])
def test_a_command_starts_within_a_multiple_of_bare_python(
    command: str, times: int, moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    """Bare Python takes 12 ms where these take at most 110 and 200. The least of several runs of
    both counts, in turn: others on the machine can only slow them down."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installation has its bytecode
    environment["MOLDAU_BOOTSTRAP"] = moldau_broker.bootstrap_servers
    cpu_s(_MAIN, command.split(), environment)  # writes the bytecode
    bare, ours = [], []
    for _ in range(TRIES):
        bare.append(cpu_s("pass", [], environment))
        ours.append(cpu_s(_MAIN, command.split(), environment))
        if min(ours) <= times * min(bare):
            break

    assert min(ours) <= times * min(bare)
