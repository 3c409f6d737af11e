"""A YAML file as a tree of texts that know their lines.

Every scalar is the text that was written (`on` and `0o17` too): the sections' own types read it.
Invariants: a repeated key is a problem and its first value counts; no error quotes a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from moldau.errors import ConfigError
from moldau.pipeline.problems import Problem

if TYPE_CHECKING:
    import yaml

_NULL: Final = "tag:yaml.org,2002:null"
NODES_MAX: Final = 50_000
DEPTH_MAX: Final = 30

Value: TypeAlias = "str | list[Node] | dict[str, Node] | None"


@dataclass(slots=True)
class Node:
    """A value and the line of its key; lines count from 1."""

    line: int
    value: Value

    def plain(self) -> Any:
        """Without lines."""
        if isinstance(self.value, dict):
            return {name: each.plain() for name, each in self.value.items()}
        if isinstance(self.value, list):
            return [each.plain() for each in self.value]
        return self.value

    def line_at(self, place: Sequence[object]) -> int:
        """The line of what stands there, or of the nearest that there is above it."""
        found = self
        for part in place:
            if isinstance(found.value, dict) and part in found.value:
                found = found.value[str(part)]
            elif isinstance(found.value, list) and isinstance(part, int):
                found = found.value[part]
            else:
                break
        return found.line

    def entries(self) -> dict[str, Node]:
        """What a mapping has; nothing for anything else."""
        return self.value if isinstance(self.value, dict) else {}


def parse(text: str, file: str) -> tuple[Node, list[Problem]]:
    """The tree, and what is wrong with its keys. ConfigError if it is no YAML mapping."""
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError):
        from moldau.config.yaml_text import load_yaml

        load_yaml(text, file)  # says what is wrong without quoting the file
        raise ConfigError("not YAML", file=file) from None
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError("a pipeline file is a YAML mapping; see docs/pipelines.md", file=file)
    growth = _Growth(file)
    return growth.node(root, 1, 0), growth.problems


class _Growth:
    """From PyYAML's nodes to ours; counts them, because aliases can multiply."""

    def __init__(self, file: str) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._count = 0

    def node(self, found: yaml.Node, line: int, depth: int) -> Node:
        import yaml

        self._count += 1
        if self._count > NODES_MAX or depth > DEPTH_MAX:
            raise ConfigError("too large or nested too deeply", file=self._file, line=line)
        if isinstance(found, yaml.ScalarNode):
            return Node(line, None if found.tag == _NULL else str(found.value))
        if isinstance(found, yaml.SequenceNode):
            items = [self.node(each, _line(each), depth + 1) for each in found.value]
            return Node(line, items)
        return Node(line, self._mapping(found, depth))

    def _mapping(self, found: yaml.Node, depth: int) -> dict[str, Node]:
        import yaml

        entries: dict[str, Node] = {}
        for key, value in found.value:
            line = _line(key)
            if not isinstance(key, yaml.ScalarNode):
                self.problems.append(Problem(line, "a key must be a plain word"))
            elif key.value in entries:
                first = entries[key.value].line
                self.problems.append(Problem(line, f"{key.value} stands here and in line {first}"))
            else:
                entries[str(key.value)] = self.node(value, line, depth + 1)
        return entries


def _line(found: yaml.Node) -> int:
    return int(found.start_mark.line) + 1
