"""A project of `moldau new` in an environment with nothing but what it says that it needs, and
README's first page: from a folder of wheels to the console on a shop's pipeline."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from release.build import DISTRIBUTIONS, build
from release.requirements import write_requirements
from tests.architecture.sources import ROOT
from tests.connect.processes import wait_until
from tests.console.screen import Screen, chromium, opened
from tests.console.shots import LOOKS, without_findings
from tests.dev.dev_processes import PATIENCE_S, dev
from tests.wheels import install, needs_uv, new_folder, own_wheels, run_uv

pytestmark = [pytest.mark.slow, pytest.mark.real, pytest.mark.deep, needs_uv]
LINUX = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="it asks Linux's /proc")
WITHIN_S: Final = 30.0
"""From the first command of README to a running broker. It is compared with the time of a core,
which is the same beside other tests."""
BLOCK: Final = re.compile(r"## The first page\n.*?```\n(.*?)```", re.DOTALL)
HIDDEN: Final = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `make dist` leaves it."""
    folder = new_folder(tmp_path_factory.mktemp("dist"))
    write_requirements(folder, build(folder, [sys.executable], "1700000000"))
    return folder


@LINUX
def test_each_kind_installs_passes_its_test_and_runs_on_two_partitions(
    wheels: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    install(home, *own_wheels(wheels))
    python = str(home / "bin" / "python")
    for kind in ("stream", "connector", "pipeline"):
        run(python, tmp_path, "-m", "moldau", "new", kind, f"my-{kind}")
        folder = tmp_path / f"my-{kind}"
        project = ["-e", f"{folder}[test]", *own_wheels(wheels)]
        run_uv("pip", "install", "-q", "-p", python, *project)
        run(python, folder, "-m", "pytest", "-q")
        with dev(folder, "--no-registry", python=python) as running:
            bootstrap = running.place("bootstrap")

            def ask(*words: str, source: str = "", at: str = bootstrap) -> str:
                return run(python, tmp_path, "-m", "moldau", "-b", at, *words, source=source)

            def is_read(topic: str, part: str, count: int = 1) -> bool:
                return ask("consume", topic).count(part) >= count

            if kind == "stream":
                running.until("streams app my-stream starts")
                ask("produce", "lines", source="a b c d e f\n")
                wait_until(lambda: is_read("counts", "1", 6), kind, PATIENCE_S)
            elif kind == "connector":
                running.until("rest ")
                wait_until(lambda: is_read("numbers", '"number":', 3), kind, PATIENCE_S)
            else:
                running.until("pipeline my-pipeline runs")
                wait_until(lambda: is_read("counts", "be 2"), kind, PATIENCE_S)
            said = ask("topic", "describe", "numbers" if kind == "connector" else "lines", "--json")
            assert said.count('"partition":') == 2
            assert running.stop() == 0


@LINUX
def test_three_commands_open_the_console_on_a_shop(wheels: Path, tmp_path: Path) -> None:
    """Packages of others come from uv's cache, as a download says nothing of moldau."""
    chromium()
    (block,) = BLOCK.findall((ROOT / "README.md").read_text())
    first, second, third = str(block).splitlines()
    assert third == "moldau dev"
    (tmp_path / "dist").symlink_to(wheels)
    home = tmp_path / "home"
    began, before = time.monotonic(), of_children_s()
    install(home, *own_wheels(wheels), "pip")
    own = ["moldau", *(f"moldau-{each}" for each in DISTRIBUTIONS)]
    run_uv("pip", "uninstall", "-q", "-p", home / "bin" / "python", *own)
    in_shell(first, tmp_path, home, PIP_NO_INDEX="1")
    in_shell(second, tmp_path, home)
    folder = tmp_path / "my-shop"
    with dev(folder, "--registry", "127.0.0.1:0", python=str(home / "bin" / "python")) as running:
        cpu_s = of_children_s() - before + running.cpu_s
        seconds = time.monotonic() - began
        running.until("pipeline my-shop runs")
        asyncio.run(looked_at(running.place("console")))
        assert running.stop() == 0
    print(f"from the wheels to a running broker in {seconds:.1f} s, {cpu_s:.1f} s of a core")
    assert cpu_s <= WITHIN_S


def of_children_s() -> float:
    """The seconds of a core that the ended processes of this one have taken."""
    taken = os.times()
    return taken.children_user + taken.children_system


def in_shell(command: str, folder: Path, home: Path, **more: str) -> None:
    """A line in a terminal where this environment is active."""
    kept = {name: text for name, text in os.environ.items() if name not in HIDDEN}
    path = f"{home / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(  # noqa: S603 - a line of our own page
        ["/bin/sh", "-ec", command],
        cwd=folder,
        env={**kept, "PATH": path, **more},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


async def looked_at(address: str) -> None:
    """The pipeline runs and is drawn, orders have come to its results, in every look."""
    async with opened() as browser:
        screen = Screen(browser, address)
        for look, settings in LOOKS.items():
            async with screen.page(**settings) as page:
                await page.goto("/pipelines")
                await page.get_by_role("link", name="pipeline", exact=True).click()
                await page.get_by_text("5 of 5 parts run").wait_for()
                await page.locator(".source .live").first.wait_for(state="attached")
                await without_findings(page, look)
                await page.get_by_role("link", name="revenue", exact=True).first.click()
                await page.get_by_text("cents").first.wait_for()


def run(python: str, folder: Path, *words: str, source: str = "") -> str:
    """What a program says. It must succeed."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(  # noqa: S603 - our own
        [python, *words],
        cwd=folder,
        input=source,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
