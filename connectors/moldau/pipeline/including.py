"""Read a pipeline of several files: `include` names the others, and their sections are merged.

The lines of all files are counted through, as if the files were one behind the other. So a node
and a problem have one number as in a single file, and `SourceFiles` says which line of which file
that is.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from moldau.config.file_problems import Problem
from moldau.config.yaml_tree import Node, parse
from moldau.deferred import dataclass

INCLUDE: Final = "include"
_TARGETS: Final = "targets"
_MAIN_ONLY: Final = ("pipeline", INCLUDE)
_NAMED: Final = ("variables", "topics", "sources", "topologies", "jobs", "sinks")
"""The sections of named entries: two files cannot have the same name."""
_SETTINGS: Final = ("broker", "worker")
_OTHERWISE: Final = "a pipeline file is a YAML mapping: write it as docs/pipelines.md shows"


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """The files of a pipeline, in the order in which their lines are counted."""

    starts: tuple[tuple[int, str], ...]
    """For each file, how many lines come before it, and its name for the user."""

    def at(self, line: int) -> tuple[str, int]:
        """Return the file and its own line that a line of all files is."""
        before, name = next(each for each in reversed(self.starts) if each[0] < max(line, 1))
        return name, line - before

    def place(self, line: int) -> str:
        """Return `FILE:LINE`."""
        name, own = self.at(line)
        return f"{name}:{own}"

    def format(self, problem: Problem) -> str:
        """Return a problem as one line, with its file."""
        name, line = self.at(problem.line)
        return replace(problem, line=line).format(name)


def read_files(
    text: str, file: str, base: str, read_text: Callable[[str], str]
) -> tuple[Node, SourceFiles, list[Problem]]:
    """Return a pipeline file merged with those that it includes, all files, and the problems.

    Paths count from `base`, the directory of the file. Raises ConfigError if a file is not a YAML
    mapping, or is too large."""
    root, problems = parse(text, file, _OTHERWISE)
    entries = dict(root.entries())
    include = entries.pop(INCLUDE, None)
    merged = Node(root.line, entries)
    starts = [(0, file)]
    lines = _line_count(text)
    seen = {posixpath.normpath(posixpath.join(base, posixpath.basename(file)))}
    for each in _included(include, problems):
        assert isinstance(each.value, str)
        path = posixpath.normpath(posixpath.join(base, each.value))
        if path in seen:
            text = f"{INCLUDE}: {each.value} is there already: remove one of the two"
            problems.append(Problem(each.line, text))
            continue
        seen.add(path)
        try:
            text = read_text(path)
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            problems.append(Problem(each.line, f"{INCLUDE}: {path}: {reason}"))
            continue
        name = posixpath.normpath(posixpath.join(posixpath.dirname(file), each.value))
        other, found = parse(text, name, _OTHERWISE)
        starts.append((lines, name))
        problems += [replace(one, line=one.line + lines) for one in found]
        files = SourceFiles(tuple(starts))
        merged, found = _merged(merged, _shifted(other, lines), files)
        problems += found
        lines += _line_count(text)
    return merged, SourceFiles(tuple(starts)), problems


def _line_count(text: str) -> int:
    return text.count("\n") + 1


def _included(include: Node | None, problems: list[Problem]) -> Iterator[Node]:
    """Yield the entries of `include` that are texts."""
    if include is None or include.value is None:
        return
    if not isinstance(include.value, list):
        text = f"{INCLUDE} must be a list of files, such as [orders.yaml, customers.yaml]"
        problems.append(Problem(include.line, text))
        return
    for each in include.value:
        if isinstance(each.value, str):
            yield each
        else:
            problems.append(Problem(each.line, f"{INCLUDE}: each entry must be the path of a file"))


def _shifted(node: Node, by: int) -> Node:
    """Return the tree with all lines moved by so many."""
    value = node.value
    if isinstance(value, dict):
        value = {name: _shifted(each, by) for name, each in value.items()}
    elif isinstance(value, list):
        value = [_shifted(each, by) for each in value]
    return Node(node.line + by, value)


def _merged(one: Node, other: Node, files: SourceFiles) -> tuple[Node, list[Problem]]:
    """Return a file with the sections of another one, and what both of them have."""
    problems: list[Problem] = []
    sections = dict(one.entries())
    for name, section in other.entries().items():
        if name in _MAIN_ONLY:
            main = files.starts[0][1]
            text = f"{name} is for the file that includes others: write it in {main} alone"
            problems.append(Problem(section.line, text))
            continue
        sections[name] = _joined(sections.get(name), section, (name,), files, problems)
    return Node(one.line, sections), problems


def _joined(
    one: Node | None,
    other: Node,
    path: tuple[str, ...],
    files: SourceFiles,
    problems: list[Problem],
) -> Node:
    """Return what two files have at this path of names. The first one stays if both have it."""
    if one is None:
        return other
    if not _is_open(path):
        text = f"{'.'.join(path)} is in {files.place(one.line)} already: remove one of the two"
        problems.append(Problem(other.line, text))
        return one
    if not isinstance(one.value, dict) or not isinstance(other.value, dict):
        # An empty section, or something else, which is a problem of the file that has it.
        return other if one.value is None or (isinstance(one.value, dict) and other.value) else one
    entries = dict(one.value)
    for name, each in other.value.items():
        entries[name] = _joined(entries.get(name), each, (*path, name), files, problems)
    return Node(one.line, entries)


def _is_open(path: tuple[str, ...]) -> bool:
    """Whether each file may add names of its own to the mapping at this path."""
    if path[0] == _TARGETS:
        return len(path) <= 2 or _is_open(path[2:])
    if path[0] in _SETTINGS:
        return path[1:] in ((), ("settings",))
    return path[0] in _NAMED and len(path) == 1
