"""The line that an error tells to run: it installs what is missing, wherever moldau came from."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator
from importlib.metadata import metadata
from pathlib import Path

import pytest

from moldau.plugins.extras import install_command
from tests.architecture.sources import DISTRIBUTIONS, ROOT


def extras() -> Iterator[str]:
    """Each extra of the distributions."""
    for folder in DISTRIBUTIONS:
        manifest = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))
        yield from manifest["project"].get("optional-dependencies", {})


@pytest.mark.parametrize("extra", sorted({*extras()}))
def test_the_line_names_the_extra_of_an_installed_distribution(extra: str) -> None:
    pip, install, named = shlex.split(install_command(extra))
    assert (pip, install) == ("pip", "install")
    owner = named.removesuffix(f"[{extra}]")
    assert owner != named
    assert extra in metadata(owner).get_all("Provides-Extra", [])


def test_the_whole_is_named_where_it_has_the_extra() -> None:
    assert install_command("tls") == "pip install 'moldau[tls]'"
    assert install_command("avro", "tls") == "pip install 'moldau[avro,tls]'"


def test_a_part_is_named_where_only_that_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "moldau_platform-1.0.dist-info"
    folder.mkdir()
    text = "Name: moldau-platform\nVersion: 1.0\nProvides-Extra: tls\n\n"
    (folder / "METADATA").write_text(text, encoding="utf-8")
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert install_command("tls") == "pip install 'moldau-platform[tls]'"


def test_an_unknown_extra_is_named_as_it_is() -> None:
    assert install_command("nothing-such") == "pip install 'moldau[nothing-such]'"


def test_more_packages_stand_after_the_extra() -> None:
    words = shlex.split(install_command("fsspec", also=["s3fs"]))
    assert words == ["pip", "install", "moldau[fsspec]", "s3fs"]
