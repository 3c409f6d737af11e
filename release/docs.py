"""`python -m release.docs FOLDER`: the docs site, a folder for each version beside one another.

The layout is mike's: FOLDER/0.1.0/, FOLDER/versions.json, and FOLDER/index.html that leads to the
newest. So the selector of versions on each page works, and an older version is kept as it was.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from moldau.plugins.layers import platform_version

ROOT: Final = Path(__file__).parents[1]
_LATEST: Final = "latest"
_INDEX: Final = """\
<!doctype html>
<meta charset="utf-8">
<title>moldau</title>
<meta http-equiv="refresh" content="0; url={version}/index.html">
<a href="{version}/index.html">moldau {version}</a>
"""


class SiteFailed(Exception):
    """mkdocs refuses the pages; the text is what it said."""


def build_site(folder: Path, version: str) -> Path:
    """Build this version's site below `folder`, and return its first page. Raise SiteFailed."""
    target = folder.resolve() / version
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "-d", target],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SiteFailed((done.stdout + done.stderr).strip())
    versions = {each.parent.name for each in folder.glob("*/index.html")}
    newest = sorted(versions, key=_order, reverse=True)
    listed = [
        {"version": each, "title": each, "aliases": [_LATEST] if each == newest[0] else []}
        for each in newest
    ]
    (folder / "versions.json").write_text(json.dumps(listed, indent=1), encoding="ascii")
    (folder / "index.html").write_text(_INDEX.format(version=newest[0]), encoding="ascii")
    return target / "index.html"


def _order(version: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", version)]


def main(words: list[str]) -> int:
    if len(words) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        page = build_site(Path(words[0]), platform_version())
    except SiteFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    print(f"the site is there: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
