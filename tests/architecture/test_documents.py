"""What the documents name exists: paths, tests in them, links, and targets of the Makefile.

A path is a word in backticks or in a code block that begins with a folder of this repository, or
the target of a link. `*` must match something; a word with `<` in it is a pattern for the reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

import pytest

from tests.architecture.allowed import Found, check
from tests.architecture.sources import DISTRIBUTIONS, ROOT, Source, sources, tracked

FOLDERS = (*DISTRIBUTIONS, "tests", "bench", "docs", "docker", "examples", ".ci", "moldau")
ROOT_FILES = re.compile(
    r"^(?:[A-Z]{4,}(?:\.md)?|Makefile|pyproject\.toml|constraints\.txt|\.gitignore)$"
)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_BACKTICKS = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)#\s]+)")
_MAKE = re.compile(r"(?:^|[`$|] ?)make ([a-z][a-z-]*)", re.MULTILINE)
_TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)
_WORD = re.compile(r"[^\s,;()\"'|]+")


def named_paths(text: str) -> Iterator[str]:
    """Everything in a document that claims to be a path of this repository."""
    for fence in _FENCE.findall(text):
        yield from (word for word in _WORD.findall(fence) if _is_path(word))
    prose = _FENCE.sub("", text)
    for quoted in _BACKTICKS.findall(prose):
        yield from (word for word in _WORD.findall(quoted) if _is_path(word))
    yield from (link for link in _LINK.findall(prose) if "://" not in link)


def dead_paths(among: Iterable[Source], exists: Callable[[str, str], bool]) -> Found:
    """`document: path` for each path that `exists(path, folder of the document)` denies."""
    found = {}
    for source in among:
        folder = PurePosixPath(source.path).parent.as_posix()
        for path in named_paths(source.text):
            if "<" not in path and "{" not in path and not exists(path, folder):
                found[f"{source.path}: {path}"] = "does not exist"
    return found


def named_targets(text: str) -> Iterator[str]:
    """Everything in code of a document that claims to be a target of the Makefile."""
    code = [*_FENCE.findall(text), *_BACKTICKS.findall(_FENCE.sub("", text))]
    for piece in code:
        yield from _MAKE.findall(piece)


def dead_targets(among: Iterable[Source], targets: Iterable[str]) -> Found:
    """`document: make target` for each that the Makefile does not have."""
    known = set(targets)
    return {
        f"{source.path}: make {target}": "is no target"
        for source in among
        for target in named_targets(source.text)
        if target not in known
    }


def _is_path(word: str) -> bool:
    word = word.split("::")[0].rstrip(".:")
    if "/" in word:
        return word.removeprefix("./").split("/")[0] in FOLDERS
    return "." in word and bool(ROOT_FILES.match(word))


def exists_here(path: str, folder: str, root: Path = ROOT) -> bool:
    """A path counts from the root, from its document, or from the portions of the namespace."""
    path, _, test = path.partition("::")
    path = path.rstrip(".:").removeprefix("./").rstrip("/")
    for base in (".", folder, *DISTRIBUTIONS):
        if any("*" in part for part in path.split("/")):
            if any((root / base).glob(path)):
                return True
        elif (root / base / path).exists():
            return not test or test in (root / base / path).read_text(encoding="utf-8")
    return False


def undocumented(among: Iterable[Source], paths: Iterable[str]) -> Found:
    """Folders at the top of the repository that no document of `among` names."""
    text = "\n".join(source.text for source in among)
    tops = {path.split("/")[0] for path in paths if "/" in path and not path.startswith(".")}
    return {
        f"{top}/": "README.md does not say what it is for" for top in tops if f"{top}/" not in text
    }


def test_every_path_that_a_document_names_exists() -> None:
    check("dead_paths", dead_paths(sources(".md"), exists_here))


def test_every_target_that_a_document_names_is_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    check("dead_targets", dead_targets(sources(".md"), _TARGET.findall(makefile)))


def test_the_readme_has_a_line_for_each_folder() -> None:
    readme = [source for source in sources(".md") if source.path == "README.md"]
    check("undocumented_folders", undocumented(readme, tracked()))


def test_a_newcomers_documents_are_there() -> None:
    documents = {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"}

    assert documents - set(tracked()) == set()


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("see `platform/moldau/ids/__init__.py`.", ["platform/moldau/ids/__init__.py"]),
        ("`moldau/protocol/messages/fetch.py`", ["moldau/protocol/messages/fetch.py"]),
        ("run `.venv/bin/python -m bench records`", []),
        ("run `pytest tests/ids -q`", ["tests/ids"]),
        ("`tests/a.py::test_b`", ["tests/a.py::test_b"]),
        ("[design](docs/design.md#idea) and [it](https://example.org/docs/x)", ["docs/design.md"]),
        ("```\nbench/    what is measured\n  moldau.x\n```", ["bench/"]),
        ("`application/json`, and/or, `CONTRIBUTING.md`", ["CONTRIBUTING.md"]),
        ("`bench/<area>.py`", ["bench/<area>.py"]),
    ],
)
def test_paths_are_read_out_of_prose_blocks_and_links(text: str, paths: list[str]) -> None:
    assert list(named_paths(text)) == paths


def test_a_planted_dead_target_is_found() -> None:
    text = "`make chaos`, `make test ARGS=x` and\n```\nmake nothing   # at all\n```\nmake no fuss"
    planted = [Source("docs/x.md", text)]
    assert set(dead_targets(planted, ["chaos", "test"])) == {"docs/x.md: make nothing"}


@pytest.mark.parametrize(
    ("path", "is_dead"),
    [
        ("platform/pyproject.toml", False),
        ("platform/moldau/idz/", True),
        ("moldau/ids/__init__.py", False),
        ("moldau/idz/__init__.py", True),
        ("tests/*/test_documents.py", False),
        ("tests/*/test_nothing_of_the_kind.py", True),
        ("tests/architecture/test_documents.py::exists_here", False),
        ("tests/architecture/test_documents.py::no_such" + "_test", True),
        ("bench/<area>.py", False),
        ("ARCHITEKTUR.md", True),
    ],
)
def test_a_planted_dead_path_is_found(path: str, is_dead: bool) -> None:
    found = dead_paths([Source("docs/guide.md", f"Look at `{path}`.")], exists_here)

    assert set(found) == ({f"docs/guide.md: {path}"} if is_dead else set())


def test_a_planted_folder_without_a_line_is_found() -> None:
    readme = Source("README.md", "`bench/` measures.")

    assert set(undocumented([readme], ["bench/a.py", "docker/x", "Makefile"])) == {"docker/"}
