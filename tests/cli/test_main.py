"""`main` and the process around it: real processes, real pipes, a real Ctrl-C."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from moldau.cli import main
from moldau.cli.application import _NEEDED, install_advice

ROOT = Path(__file__).parents[2]
MODULES = {"pyyaml": "yaml", "google-re2": "re2"}

FULL = Path("/dev/full")

# A main whose only command is one of the test's own. Ctrl-C is what it is in a terminal: a shell
# that starts the tests in the background has them, and so this process, ignore it.
WITH_COMMAND = """
import signal
import sys
import moldau.cli as cli
from moldau.plugins import Plugins
from tests.plugins.entry_points import point

signal.signal(signal.SIGINT, signal.default_int_handler)
plugins = Plugins([point("commands", "act", "tests.cli.commands:" + sys.argv.pop(1))])
cli._find_plugins = lambda: plugins
sys.exit(cli.main())
"""


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def test_main_takes_arguments_and_answers_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"moldau {version('moldau-platform')}\n"
    assert main(["no-such-command"]) == 2
    assert "no command no-such-command" in capsys.readouterr().err


@pytest.mark.real
def test_the_process_prints_its_version() -> None:
    with start("-m", "moldau.cli", "--version") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out == f"moldau {version('moldau-platform')}\n"


@pytest.mark.real
def test_a_reader_that_leaves_is_no_error() -> None:
    with start("-c", WITH_COMMAND, "flood", "act") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "line 0\n"
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait(60) == 141
    assert err == ""


def closed(streams: str, *arguments: str) -> tuple[int, str, str]:
    """Runs `moldau` by a shell that closes these streams."""
    script = f'"$@" {streams}'
    with subprocess.Popen(  # noqa: S603
        ["/bin/sh", "-c", script, "sh", sys.executable, "-m", "moldau.cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.real
def test_a_closed_output_is_as_a_reader_that_has_left() -> None:
    assert closed(">&-", "plugins") == (141, "", "")
    code, _, err = closed(">&-", "no-such-command")
    assert (code, err.count("\n")) == (2, 1)
    assert closed("2>&-", "no-such-command") == (2, "", "")
    assert closed(">&- 2>&-", "--version") == (141, "", "")


@pytest.mark.real
@pytest.mark.parametrize("streams", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_no_event_loop_stands_where_a_stream_was_closed(streams: str) -> None:
    code, out, err = closed(streams, "topic", "list", "--bootstrap", "127.0.0.1:1")
    assert (code, out) == (1, "")
    assert err.count("\n") == (0 if "2>" in streams else 1), err


@pytest.mark.real
def test_what_a_command_starts_has_the_streams_too() -> None:
    code = (
        "import os; from moldau.cli import main; main(['no-such-command']); "
        "os.execvp('ls', ['ls', '/proc/self/fd/0', '/proc/self/fd/2'])"
    )
    words = ["/bin/sh", "-c", '"$@" <&- 2>&-', "sh", sys.executable, "-c", code]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, cwd=ROOT, timeout=60)  # noqa: S603
    assert (done.returncode, done.stdout) == (0, "/proc/self/fd/0\n/proc/self/fd/2\n")


@pytest.mark.real
@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full on this system")
def test_an_output_that_is_full_is_told() -> None:
    with FULL.open("w") as full:
        process = subprocess.Popen(
            [sys.executable, "-m", "moldau.cli", "--version"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        with process:
            _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.startswith("moldau: ")
    assert err.endswith("No space left on device\n")
    assert err.count("\n") == 1


@pytest.mark.real
def test_ctrl_c_ends_quietly() -> None:
    with start("-c", WITH_COMMAND, "waiting", "act") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, err) == (130, "\n")


@pytest.mark.real
def test_the_version_imports_nothing_heavy() -> None:
    heavy = {"asyncio", "rich", "yaml", "pydantic", "logging", "moldau.protocol", "moldau.config"}
    code = "import sys, moldau.cli as cli; cli.main(['--version']); print(*sys.modules)"
    with start("-c", code) as process:
        out, _ = process.communicate(timeout=60)
    loaded = set(out.splitlines()[-1].split())
    assert "moldau.cli.application" in loaded
    assert heavy & loaded == set()


def test_every_package_that_a_distribution_needs_is_known() -> None:
    needed = set()
    for each in ("platform", "broker", "streams", "connect", "connectors"):
        text = (ROOT / each / "pyproject.toml").read_text(encoding="utf-8")
        for line in tomllib.loads(text)["project"]["dependencies"]:
            name = re.split(r"[\[<>=!~; ]", line)[0].lower()
            if not name.startswith("moldau-"):
                needed.add(MODULES.get(name, name))
    assert needed <= _NEEDED, needed - _NEEDED


def test_other_modules_get_no_advice() -> None:
    assert "second step" in install_advice(ModuleNotFoundError("no", name="lz4.block"))
    assert install_advice(ModuleNotFoundError("no", name="my_functions")) == ""
    assert install_advice(ImportError("no", name="lz4")) == ""
    assert install_advice(ModuleNotFoundError("no")) == ""


@pytest.mark.parametrize("module", ["moldau", "moldau.cli"])
def test_the_module_is_the_command(module: str, tmp_path: Path) -> None:
    said = subprocess.check_output(  # noqa: S603
        [sys.executable, "-m", module, "--version"], cwd=tmp_path, text=True, timeout=60
    )

    assert said.startswith("moldau ")
