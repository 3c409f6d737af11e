"""Effects live in moldau.runtime alone, and cores do not know that asyncio exists."""

from __future__ import annotations

import pytest

from tests.architecture.allowed import Found, allowed, check
from tests.architecture.effects import asyncio_uses, effects
from tests.architecture.sources import Source, product

PLANTED = "broker/moldau/broker/log/segment.py"


def found_in(text: str, path: str = PLANTED) -> set[str]:
    prefix = f"{path}::"
    return {where.removeprefix(prefix) for where in effects([Source(path, text)])}


def test_no_effects_outside_the_runtime() -> None:
    check("effects", effects(product()))


def test_only_shells_import_asyncio() -> None:
    shells = allowed("shells")
    assert all(str(reason).strip() for reason in shells.values())
    check("asyncio", asyncio_uses(product(), shells))


def test_every_shell_that_names_a_package_of_the_platform_exists() -> None:
    modules = {source.module for source in product()}

    assert {shell for shell in allowed("shells") if "." in shell} <= modules


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("import time", "<module>: time"),
        ("import time as t", "<module>: time"),
        ("from time import monotonic", "<module>: time"),
        ("import random", "<module>: random"),
        ("from uuid import uuid4", "<module>: uuid"),
        ("import threading", "<module>: threading"),
        ("import socket, struct", "<module>: socket"),
        ("import concurrent.futures", "<module>: concurrent.futures"),
        ("from concurrent import futures", "<module>: concurrent.futures"),
        ("def f():\n    import subprocess", "f: subprocess"),
        ("import os\nclass A:\n    def f(self): return os.environ['X']", "A.f: os.environ"),
        ("import os as o\nkey = o.urandom(8)", "<module>: os.urandom"),
        ("from os import getenv", "<module>: os.getenv"),
        ("import os\ndef f(): return os.path.exists('x')", "f: os.path.exists"),
        ("from os.path import exists", "<module>: os.path.exists"),
        ("from pathlib import Path", "<module>: pathlib.Path"),
        ("import pathlib\ndef f(): return pathlib.Path('x')", "f: pathlib.Path"),
        ("def f(): return open('x')", "f: open()"),
        ("from io import open", "<module>: io.open"),
        ("__import__('time')", "<module>: __import__()"),
        ("from datetime import datetime\ndef f(): return datetime.now()",
         "f: datetime.datetime.now"),
        ("import datetime\ndef f(): return datetime.date.today()", "f: datetime.date.today"),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    import time", "<module>: time"),
    ],
)  # fmt: skip
def test_a_planted_effect_is_found(text: str, what: str) -> None:
    assert found_in(text) == {what}


@pytest.mark.parametrize(
    "text",
    [
        "from __future__ import annotations\nif TYPE_CHECKING:\n    import random",
        "import typing\nif typing.TYPE_CHECKING:\n    from pathlib import Path",
        "from datetime import timedelta\nday = timedelta(days=1)",
        "import os\ndef f(path): return os.fspath(path), os.path.join('a', 'b')",
        "from pathlib import PurePath",
        "from io import BytesIO",
        "def f(files): return files.open('x'), files.read_text('y')",
        "from .time import now",
        "import timeit_of_ours",
    ],
)
def test_what_has_no_effect_is_not_found(text: str) -> None:
    assert found_in(text) == set()


@pytest.mark.parametrize(
    "path", ["platform/moldau/runtime/real.py", "platform/moldau/runtime/simulated/disk.py"]
)
def test_the_runtime_may(path: str) -> None:
    assert found_in("import time", path) == set()


def test_a_package_named_like_the_runtime_may_not() -> None:
    path = "platform/moldau/runtime_extras/clock.py"
    assert found_in("import time", path) == {"<module>: time"}


@pytest.mark.parametrize(
    ("path", "is_found"),
    [
        ("broker/moldau/broker/raft/core.py", True),
        ("broker/moldau/broker/network/shell.py", False),
        ("platform/moldau/client/producer/producer.py", False),
        ("platform/moldau/client_pool.py", True),
    ],
)
@pytest.mark.parametrize(
    "text", ["import asyncio", "from asyncio import Queue", "import asyncio.events as e"]
)
def test_asyncio_in_a_core_is_found_and_in_a_shell_is_not(
    path: str, is_found: bool, text: str
) -> None:
    expected: Found = {path: "a core imports asyncio"} if is_found else {}

    assert asyncio_uses([Source(path, text)], ["moldau.client", "shell"]) == expected
