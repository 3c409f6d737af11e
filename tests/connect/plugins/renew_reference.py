"""`python -m tests.connect.plugins.renew_reference` writes `docs/connect-reference.md`."""

from __future__ import annotations

from pathlib import Path

from moldau.connect.plugins import Catalogue, PluginKind
from moldau.connect.plugins.reference import render

PAGE = Path(__file__).parents[3] / "docs" / "connect-reference.md"


def current() -> str:
    """The page as the models have it now."""
    kinds = [kind for kind in PluginKind if kind is not PluginKind.CONNECTOR]
    return render(Catalogue.installed(), "moldau-connect", kinds)


if __name__ == "__main__":
    PAGE.write_text(current(), encoding="utf-8")
