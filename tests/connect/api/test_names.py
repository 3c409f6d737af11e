"""What authors of plugins import is all there, and costs nothing until it is used."""

from __future__ import annotations

import subprocess
import sys

import moldau.connect
import moldau.connect.api


def test_every_public_name_can_be_had() -> None:
    for package in (moldau.connect, moldau.connect.api):
        for name in package.__all__:
            assert getattr(package, name) is not None, name


def test_the_package_loads_nothing_before_it_is_used() -> None:
    code = "import sys, moldau.connect; print('pydantic' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603

    assert done.stdout.strip() == "False"
