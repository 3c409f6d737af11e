"""What the docs site has beside docs/*.md: a hook of mkdocs (mkdocs.yml).

It adds the pages made of the code (`release.pages`), those of the benches and the changelog, fills
the tables of docs/comparison.md, and turns links that leave docs/ into links of the site. So the
sources read well on GitHub too, and a link that leads nowhere fails the build.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
if str(ROOT) not in sys.path:  # mkdocs loads a hook by its path
    sys.path.insert(0, str(ROOT))

from release.comparison import MARK, bench_tables, render_goals  # noqa: E402
from release.pages import PAGES  # noqa: E402

RESULTS: Final = ROOT / "bench" / "results"
NOTES: Final = ROOT / "bench"
_BENCH_LINK: Final = re.compile(r"\]\(\.\./bench/(?:results/)?([\w-]+\.md)")
_RESULT_LINK: Final = re.compile(r"\]\(results/")
_DOCS_LINK: Final = re.compile(r"\]\(docs/")
_OF_THE_ROOT: Final = {"changelog.md": "CHANGELOG.md", "reporting.md": "SECURITY.md"}
_MEASURED: Final = "Measured"


def extra_pages() -> dict[str, str]:
    """The text of each page that is not in docs/, by its path on the site."""
    pages = {name: render() for name, render in PAGES.items()}
    for path in sorted((*RESULTS.glob("*.md"), *NOTES.glob("notes-*.md"))):
        text = _RESULT_LINK.sub("](", path.read_text(encoding="utf-8"))
        pages[f"bench/{path.name}"] = text.replace("](../docs/", "](../")
    for name, source in _OF_THE_ROOT.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        pages[name] = _DOCS_LINK.sub("](", text).replace("](SECURITY.md)", "](reporting.md)")
    return pages


def for_site(name: str, text: str) -> str:
    """The text of a page of docs/ as the site has it."""
    if name == "comparison.md":
        assert MARK in text
        text = text.replace(MARK, render_goals(bench_tables(RESULTS)))
    text = text.replace("](../SECURITY.md)", "](reporting.md)")
    return _BENCH_LINK.sub(r"](bench/\1", text)


def on_config(config: Any) -> Any:
    """List the pages of the benches in the navigation."""
    benches = [name for name in extra_pages() if name.startswith("bench/")]
    for entries in (entries for part in config.nav for entries in part.values()):
        for entry in entries:
            if isinstance(entry, dict) and _MEASURED in entry:
                entry[_MEASURED] = benches
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not in docs/."""
    from mkdocs.structure.files import File

    for name, text in extra_pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Called by mkdocs for each page."""
    return for_site(page.file.src_uri, markdown)
