"""The line that an error tells to run: it installs what is missing, wherever moldau came from."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator

import pytest

from moldau.plugins.extras import install_command
from tests.architecture.sources import DISTRIBUTIONS, ROOT


def extras() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each extra of the distributions, with the packages that it names itself."""
    for folder in DISTRIBUTIONS:
        manifest = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))
        for name, packages in manifest["project"].get("optional-dependencies", {}).items():
            yield name, tuple(each for each in packages if not each.startswith("moldau"))


@pytest.mark.parametrize(("extra", "packages"), [*extras()])
def test_the_line_names_the_packages_of_the_extra(extra: str, packages: tuple[str, ...]) -> None:
    words = shlex.split(install_command(extra))

    assert words[:2] == ["pip", "install"]
    versions = {word.replace(" ", "") for word in words[2:]}
    for each in packages:
        name = each.partition(">")[0].partition("<")[0]
        assert any(word.startswith(name) for word in versions), (each, words)
    assert not any(word.startswith("moldau") for word in versions)


def test_an_extra_that_stands_on_another_brings_that_too() -> None:
    assert "pyspark" in install_command("delta")


def test_an_unknown_extra_is_named_as_it_is() -> None:
    assert install_command("nothing-such") == "pip install 'moldau[nothing-such]'"


def test_more_packages_stand_after_those_of_the_extra() -> None:
    assert shlex.split(install_command("fsspec", also=["s3fs"]))[-1] == "s3fs"
