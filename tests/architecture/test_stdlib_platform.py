"""The standard library's `platform` survives a folder of that name at the top of the repository.

A folder without `__init__.py` loses against a real module on the path, so all is well as long as
nobody makes it a package and no test lies in it. This shows that it is well now, and that the
trap is real.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.architecture.sources import DISTRIBUTIONS, ROOT

STDLIB = Path(sysconfig.get_path("stdlib")).resolve()
PLAIN = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
ASK = "import platform; print(platform.__file__)"


def platform_seen_from(folder: Path, *arguments: str) -> Path:
    """The file of `platform` in a fresh interpreter that starts in `folder`."""
    command = [sys.executable, *(arguments or ("-c", ASK))]
    answer = subprocess.run(  # noqa: S603
        command, cwd=folder, env=PLAIN, capture_output=True, text=True, check=False
    )
    lines = [line for line in answer.stdout.splitlines() if line.endswith(".py")]
    assert lines, answer.stdout + answer.stderr
    return Path(lines[-1]).resolve()


@pytest.mark.parametrize("folder", [".", *DISTRIBUTIONS, "tests"])
def test_a_fresh_interpreter_sees_it_from_every_folder(folder: str) -> None:
    assert platform_seen_from(ROOT / folder) == STDLIB / "platform.py"


def test_it_is_what_these_tests_see_under_importlib_mode() -> None:
    assert Path(platform.__file__).resolve() == STDLIB / "platform.py"
    assert platform.python_version()


def test_a_package_of_that_name_would_replace_it(tmp_path: Path) -> None:
    package = tmp_path / "platform"
    package.mkdir()
    assert platform_seen_from(tmp_path) == STDLIB / "platform.py"

    (package / "__init__.py").touch()
    assert platform_seen_from(tmp_path) == package / "__init__.py"


def test_a_test_in_a_folder_of_that_name_would_replace_it(tmp_path: Path) -> None:
    """pytest's importlib mode puts the folders of a test into sys.modules under their names."""
    folder = tmp_path / "platform"
    folder.mkdir()
    (tmp_path / "pytest.ini").touch()
    (folder / "test_it.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    print(getattr(sys.modules['platform'], '__file__', None) or 'replaced.py')\n"
    )
    run = ("-m", "pytest", "-q", "-s", "--import-mode=importlib", "-p", "no:cacheprovider")

    assert platform_seen_from(tmp_path, *run) != STDLIB / "platform.py"
