"""What holds for all tests, and what many of them use.

Properties have no deadline: how long an example takes is the machine's business, and a collection
of garbage in its midst is nobody's fault.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from moldau.runtime.simulated.determinism import Garbage
from tests import again, longest, suites
from tests.change import changed
from tests.memory import Bound, give_back
from tests.no_client_left import no_client_is_left as no_client_is_left
from tests.no_socket_left import fail_if_a_connection_is_left, look_at_ends_of_loops

TESTS_BETWEEN_FREEZES = 1000
LIKELY_FILES = pytest.StashKey[list[str]]()

# What tests share stands in modules that are no tests: their asserts explain themselves as well.
# Not those whose functions are sent to Spark's executors: with its asserts a module gets names of
# pytest, which stay here.
SENT = {"connectors", "pipeline", "spark", "streams"}
ROOMS = sorted({each.parent.name for each in Path(__file__).parent.glob("*/__init__.py")} - SENT)
pytest.register_assert_rewrite(*(f"tests.{room}" for room in ROOMS))

# As in the Makefile: tests start hundreds of processes, and each would compile all it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

look_at_ends_of_loops()

# How long hypothesis takes depends on what else runs on the machine.
settings.register_profile(
    "without-clock",
    settings(),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("without-clock")


@pytest.fixture
def no_world_is_left() -> Iterator[None]:
    """A simulated world is a cycle with disks in it, up to 300 MB: many would fill the machine."""
    yield
    give_back()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--write-durations` keeps what each file took in tests/durations.toml; `--left-out` names
    a list of files that are not read."""
    parser.addoption("--write-durations", action="store_true", default=False)
    parser.addoption("--left-out", type=Path, default=None)
    again.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Only the process that leads sees all reports. It looks for the change too, and tells the
    workers, which must agree on an order. A second run of what has failed has no durations: it
    is a part of its suite."""
    if hasattr(config, "workerinput"):
        return
    if config.getoption("--write-durations") and not config.getoption(again.OPTION):
        in_turns = without.in_turns if (without := left_out(config)) else frozenset[str]()
        config.pluginmanager.register(suites.Durations(suites.DURATIONS, in_turns))
    again.configure(config)
    likely = longest.likely_files(changed(config.rootpath), suites.files())
    config.stash[LIKELY_FILES] = sorted(likely)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Called by xdist for each worker."""
    node.workerinput["likely_files"] = node.config.stash[LIKELY_FILES]


def left_out(config: pytest.Config) -> suites.LeftOut | None:
    """Return what `--left-out` names."""
    path = config.getoption("--left-out")
    return None if path is None else suites.left_out(config.rootpath / path)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What `-m` chooses nothing of; a file that the command line names is read all the same."""
    try:
        path = collection_path.relative_to(config.rootpath).as_posix()
    except ValueError:
        return None
    path = f"{path}/" if collection_path.is_dir() else path
    if (without := left_out(config)) is not None and path in without.files:
        return True
    return suites.is_left_out(path, config.option.markexpr) or None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, object, None]:
    """Marks come before `-m` chooses, the order after chance has had its turn."""
    suites.mark(items)
    if (without := left_out(config)) is not None:
        items[:] = [each for each in items if not without.has(each.nodeid)]
    yield
    given = getattr(config, "workerinput", None)
    likely = config.stash[LIKELY_FILES] if given is None else given["likely_files"]
    longest.first(items, frozenset(likely))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """What is read stays, and garbage is collected once behind it: a quarter of the CPU less. The
    process that leads workers reads nothing, so no end of it turns the collection on again."""
    if not session.config.pluginmanager.has_plugin("dsession"):
        gc.disable()


def pytest_collection_finish() -> None:
    """Modules and thousands of tests stay until the end: no collection of garbage need walk them.
    It makes one about ten times as fast, and many tests ask for one."""
    gc.enable()
    gc.collect()
    gc.freeze()
    Garbage.freezes = False


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """Behind the fixtures, those of the file among them."""
    try:
        return (yield)
    finally:
        fail_if_a_connection_is_left()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """The last report of a test has the CPU that it took."""
    if call.when == "teardown":
        suites.measure(item)


_ran = count(1)
_bound = Bound()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    suites.begins(item)
    try:
        return (yield)
    finally:
        suites.begins(None)
        _bound.look()
        if next(_ran) % TESTS_BETWEEN_FREEZES == 0:
            # Each simulation would walk what tests before it have left.
            gc.unfreeze()
            gc.collect()
            gc.freeze()
