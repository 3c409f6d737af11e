"""What is kept in the repository: nothing of anybody's machine, and nothing that cannot be read.

Addresses belong to whoever installs: pins are plain `name==version`, so that any mirror will do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

from tests.architecture.allowed import Found, allowed, check
from tests.architecture.sources import ROOT, Source, tracked

LOCK_FILES = {
    "Pipfile.lock",
    "pdm.lock",
    "poetry.lock",
    "pylock.toml",
    "uv.lock",
    "package-lock.json",
    "yarn.lock",
}
MACHINE_PATH = re.compile(
    r"(?<![\w.~$}-])/(?!mnt/shared/config\b)(?:home|Users|root|work|mnt|private/tmp)/[\w.-]+|\b[A-Z]:\\+Users\b"
)
"""One is a folder of the image apache/kafka, and not of a machine."""
REGISTRY = re.compile(
    r"files\.pythonhosted\.org|pypi\.org/simple|repo1?\.maven(?:\.apache)?\.org"
    r"|registry\.npmjs\.org|proxy\.golang\.org|--(?:extra-)?index-url|\bartifactory\b|\bnexus\d*\.",
    re.IGNORECASE,
)
MACHINE_HINTS = ("/home/", "/users/", "/root/", "/work/", "/mnt/", "/private/", ":\\")
REGISTRY_HINTS = (
    *("pythonhosted", "pypi.org", "maven", "npmjs", "golang.org"),
    *("index-url", "artifact", "nexus"),
)
"""A text without any of these, in lower case, need not be searched: that takes a second each."""
FILE_BYTES_MAX = 1 << 20
BINARY_KIB_MAX = 2048


@cache
def texts() -> tuple[Source, ...]:
    """What can be read, of this repository."""
    contents = ((path, read_here(path)) for path in tracked())
    return tuple(
        Source(path, content.decode("utf-8"))
        for path, content in contents
        if not is_binary(content)
    )


def with_one_of(hints: Iterable[str]) -> list[Source]:
    """The texts that have one of these words, in any case."""
    hints = tuple(hints)
    lowered = ((source, source.text.lower()) for source in texts())
    return [source for source, text in lowered if any(hint in text for hint in hints)]


def is_binary(content: bytes) -> bool:
    """Whether a reader of the diff would see nothing: a NUL byte, or no UTF-8."""
    try:
        return "\0" in content.decode("utf-8")
    except UnicodeDecodeError:
        return True


def matching(among: Iterable[Source], pattern: re.Pattern[str]) -> Found:
    return {
        f"{source.path}: {match.group()}": "names a machine, or an address to install from"
        for source in among
        for match in pattern.finditer(source.text)
    }


def own_paths() -> re.Pattern[str]:
    """This checkout's folder and this user's home, wherever the tests run."""
    folders = {str(folder) for folder in (ROOT, Path.home()) if len(folder.parts) > 2}
    return re.compile("|".join(sorted(map(re.escape, folders))) or r"(?!)")


def lock_files(paths: Iterable[str]) -> Found:
    return {path: "a lock file" for path in paths if PurePosixPath(path).name in LOCK_FILES}


def binaries(paths: Iterable[str], folders: Iterable[str], read: Callable[[str], bytes]) -> Found:
    """Binary files outside the folders that may hold them."""
    folders = tuple(folders)
    return {
        path: "binary" for path in paths if not path.startswith(folders) and is_binary(read(path))
    }


def large_files(sizes: Mapping[str, int]) -> Found:
    return {path: size for path, size in sizes.items() if size > FILE_BYTES_MAX}


def read_here(path: str) -> bytes:
    return (ROOT / path).read_bytes()


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    named = matching(with_one_of(MACHINE_HINTS), MACHINE_PATH)

    check("machine_paths", {**named, **matching(texts(), own_paths())})


def test_no_file_names_an_address_to_install_from() -> None:
    check("registries", matching(with_one_of(REGISTRY_HINTS), REGISTRY))


def test_no_lock_files() -> None:
    check("lock_files", lock_files(tracked()))


def test_binaries_are_only_where_they_may_be() -> None:
    check("binaries", binaries(tracked(), allowed("binary_folders"), read_here))


def test_every_folder_of_binaries_holds_some_and_stays_small() -> None:
    for folder, reason in allowed("binary_folders").items():
        inside = [path for path in tracked() if path.startswith(folder)]
        assert str(reason).strip()
        assert any(is_binary(read_here(path)) for path in inside), folder
        assert sum(len(read_here(path)) for path in inside) <= BINARY_KIB_MAX * 1024, folder


def test_no_file_is_too_large_to_read() -> None:
    check("large_files", large_files({path: (ROOT / path).stat().st_size for path in tracked()}))


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("read /home/" + "ada/x", True),
        ("'/Users/" + "ada'", True),
        ("cd /work/" + "main", True),
        ("C:\\" + "Users\\ada", True),
        ("~/work/x and $HOME/root/x and a.b/home/x", False),
        ("GET /topics/home/ada", False),
        ("log.dirs=/tmp/kafka-logs", False),
    ],
)
def test_a_planted_machine_path_is_found(text: str, is_found: bool) -> None:
    assert bool(matching([Source("planted.md", text)], MACHINE_PATH)) is is_found


def test_a_planted_path_of_this_checkout_is_found() -> None:
    if len(ROOT.parts) <= 2:
        pytest.skip("the checkout lies at the top of the file system: its name says nothing")

    assert matching([Source("planted.md", f"see {ROOT}/Makefile")], own_paths())


@pytest.mark.parametrize(
    "text",
    [
        "https://files.python" + "hosted.org/packages/x.whl",
        "--index" + "-url x",
        "https://repo.maven" + ".apache.org/maven2",
        "https://nexus" + ".example/repository",
    ],
)
def test_a_planted_registry_is_found(text: str) -> None:
    assert matching([Source("planted.txt", text)], REGISTRY)


def test_a_planted_lock_file_is_found() -> None:
    assert set(lock_files(["streams/uv.lock", "broker/moldau/lock.py"])) == {"streams/uv.lock"}


def test_a_planted_binary_is_found() -> None:
    content = {"a.png": b"\x89PNG\0", "b.md": "\u00fc".encode(), "data/c.bin": b"\xff\xfe"}

    assert set(binaries(content, ["data/"], content.__getitem__)) == {"a.png"}


def test_a_planted_large_file_is_found() -> None:
    sizes = {"a.json": FILE_BYTES_MAX, "b.json": FILE_BYTES_MAX + 1}

    assert large_files(sizes) == {"b.json": FILE_BYTES_MAX + 1}
