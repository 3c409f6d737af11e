"""Targets of a pipeline file, such as dev and prod: what differs there from the rest of the file.

A target has sections as the file has. Its values win; what it does not have stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moldau.config.file_problems import Problem, nearest
from moldau.config.yaml_tree import Node

TARGETS: Final = "targets"
_CONNECTORS: Final = ("sources", "sinks")
_SECTIONS: Final = (
    "variables", "broker", "worker", "topics", "sources", "topologies", "jobs", "sinks",
)  # fmt: skip


def for_target(root: Node, target: str | None) -> tuple[Node, list[Problem]]:
    """Return the file for a target, without its section of targets, and the problems with that."""
    entries = dict(root.entries())
    section = entries.pop(TARGETS, None)
    plain = Node(root.line, entries)
    found = {} if section is None else section.entries()
    problems = list(_problems(section)) if section is not None else []
    if target is None:
        return plain, problems
    chosen = found.get(target)
    if chosen is None:
        known = f"it has {', '.join(found)}" if found else "it has none"
        text = f"the file has no target {target}{nearest(target, found)} ({known})"
        return plain, [*problems, Problem(root.line, text)]
    wanted = {name: each for name, each in chosen.entries().items() if name in _SECTIONS}
    problems += _of_files(plain, chosen, target)
    return _merged(_one_form(plain), _one_form(Node(chosen.line, wanted))), problems


def _of_files(root: Node, chosen: Node, target: str) -> Iterator[Problem]:
    """Find connectors in files of their own: a target cannot change values there."""
    for section in _CONNECTORS:
        own = _entries(root, section)
        for name, each in _entries(chosen, section).items():
            if name in own and isinstance(own[name].value, str) and isinstance(each.value, dict):
                text = f"targets.{target}.{section}.{name}: its config is in a file: name another"
                yield Problem(each.line, text)


def _entries(root: Node, section: str) -> dict[str, Node]:
    return root.entries().get(section, Node(0, None)).entries()


def _one_form(root: Node) -> Node:
    """Return the sections with each connector's config under the key `config`."""
    sections = dict(root.entries())
    for section in _CONNECTORS:
        entries = dict(_entries(root, section))
        for name, each in entries.items():
            inner = each.entries()
            has_config = "config" in inner and isinstance(inner["config"].value, dict)
            if inner and not has_config and not inner.keys() <= {"writes"}:
                entries[name] = Node(each.line, {"config": each})
        if entries:
            sections[section] = Node(sections[section].line, dict(entries))
    return Node(root.line, sections)


def _problems(section: Node) -> Iterator[Problem]:
    if section.value is not None and not isinstance(section.value, dict):
        yield Problem(section.line, "targets must be a mapping of names to sections")
    for name, target in section.entries().items():
        if target.value is not None and not isinstance(target.value, dict):
            yield Problem(target.line, f"targets.{name} must be a mapping of sections")
        for key, each in target.entries().items():
            if key not in _SECTIONS:
                known = ", ".join(_SECTIONS)
                text = f"targets.{name} has no section {key}{nearest(key, _SECTIONS)}"
                yield Problem(each.line, f"{text} (known: {known})")


def _merged(one: Node, other: Node) -> Node:
    """Return both as one: mappings entry by entry, anything else from `other`."""
    if not isinstance(one.value, dict) or not isinstance(other.value, dict):
        return other
    entries = dict(one.value)
    for name, each in other.value.items():
        entries[name] = _merged(entries[name], each) if name in entries else each
    return Node(one.line, entries)
