"""What an installation without this repository gets: the wheels, in an environment of their own."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.architecture.sources import DISTRIBUTIONS, ROOT
from tests.wheels import build_wheel, needs_uv, run_uv

pytestmark = [pytest.mark.slow, pytest.mark.real, needs_uv]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The five distributions, without the compiled kernel, by their folders."""
    folder = tmp_path_factory.mktemp("wheels")
    return {each: build_wheel(each, folder, MOLDAU_PURE="1")[0] for each in DISTRIBUTIONS}


def test_every_wheel_has_the_licence(wheels: dict[str, Path]) -> None:
    licence = (ROOT / "LICENSE").read_bytes()
    for wheel in wheels.values():
        with zipfile.ZipFile(wheel) as inside:
            (name,) = [each for each in inside.namelist() if each.endswith("/LICENSE")]
            assert ".dist-info/" in name
            assert inside.read(name) == licence


def test_every_wheel_has_its_layer_and_nothing_beside_it(wheels: dict[str, Path]) -> None:
    beside = {"connectors": {"pyspark_moldau.py"}}  # where Spark looks for a data source
    for layer, wheel in wheels.items():
        with zipfile.ZipFile(wheel) as inside:
            names = [each for each in inside.namelist() if ".dist-info/" not in each]
        assert any(each.endswith("/py.typed") for each in names)
        assert {each.split("/")[0] for each in names} == {"moldau"} | beside.get(layer, set())
        assert "moldau/__init__.py" not in names


def test_installed_wheels_bring_a_command_that_tells_what_is_there(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    home = tmp_path / "installed"
    run_uv("venv", "-q", home)
    python = home / "bin" / "python"
    run_uv("pip", "install", "-q", "-p", python, "-c", ROOT / "constraints.txt", *wheels.values())

    def moldau(*arguments: str) -> str:
        command = [str(home / "bin" / "moldau"), *arguments]
        return subprocess.check_output(  # noqa: S603
            command, cwd=tmp_path, text=True, stderr=subprocess.STDOUT
        )

    assert moldau("--version").startswith("moldau ")
    assert "not installed" not in moldau("plugins")
    said = moldau("version")
    assert ["record-kernel", "pure"] in [line.split() for line in said.splitlines()]
    assert "no compiled kernel for cpython" in said
