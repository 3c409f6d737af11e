"""The files of a secured cluster on this machine."""

from __future__ import annotations

from pathlib import Path

from moldau.runtime.real import RealRuntime
from moldau.testing.cluster_security import ClusterSecurity


def test_the_key_of_the_authority_is_in_a_folder_of_its_own(tmp_path: Path) -> None:
    """A cluster without new nodes does not need it, and one of an earlier version has it."""
    secured = tmp_path / "secured"
    security = ClusterSecurity(RealRuntime("test"), str(secured))
    security.prepare([1], "localhost:1", None)
    assert not (secured / "authority.key").exists()
    kept = (secured / "authority" / "authority.key").rename(tmp_path / "authority.key")
    security.prepare([1], "localhost:1", None)
    kept.rename(secured / "authority.key")
    security.prepare([1, 2], "localhost:1", None)
    assert (secured / "node-2.pem").exists()
