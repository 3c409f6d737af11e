"""Parse a YAML file to a tree of texts with their line numbers.

Every scalar stays the text in the file, also `on` and `0o17`. The types of the sections parse it.

Invariants: A repeated key is a problem, and its first value counts. No error quotes a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from moldau.config.file_problems import Problem
from moldau.deferred import dataclass
from moldau.errors import ConfigError

if TYPE_CHECKING:
    import yaml

_NULL: Final = "tag:yaml.org,2002:null"
NODES_MAX: Final = 50_000
DEPTH_MAX: Final = 30

Value: TypeAlias = "str | list[Node] | dict[str, Node] | None"


@dataclass(slots=True)
class Node:
    """A value of the file, and the line of its key. Lines count from 1."""

    line: int
    value: Value

    def plain(self) -> Any:
        """Return the value as plain Python data, without lines."""
        if isinstance(self.value, dict):
            return {name: each.plain() for name, each in self.value.items()}
        if isinstance(self.value, list):
            return [each.plain() for each in self.value]
        return self.value

    def line_at(self, path: Sequence[object]) -> int:
        """Return the line of the value at this path of keys and indexes.

        If the path does not exist, return the line of its nearest existing parent."""
        found = self
        for part in path:
            if isinstance(found.value, dict) and part in found.value:
                found = found.value[str(part)]
            elif isinstance(found.value, list) and isinstance(part, int):
                found = found.value[part]
            else:
                break
        return found.line

    def entries(self) -> dict[str, Node]:
        """Return the entries of a mapping; return an empty dict for any other value."""
        return self.value if isinstance(self.value, dict) else {}


def parse(text: str, file: str, otherwise: str) -> tuple[Node, list[Problem]]:
    """Parse the text. Return the tree, and the problems with its keys.

    Raises ConfigError if the text is not a YAML mapping; `otherwise` says what it should be."""
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError):
        from moldau.config.yaml_text import load_yaml

        load_yaml(text, file)  # raises an error that does not quote the file
        raise ConfigError("not YAML", file=file) from None
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(otherwise, file=file)
    builder = _TreeBuilder(file)
    return builder.node(root, 1, 0), builder.problems


class _TreeBuilder:
    """Builds our tree from PyYAML's. It limits the number of nodes, because aliases can multiply
    them."""

    def __init__(self, file: str) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._count = 0

    def node(self, found: yaml.Node, line: int, depth: int) -> Node:
        import yaml

        self._count += 1
        if self._count > NODES_MAX or depth > DEPTH_MAX:
            raise ConfigError(
                f"the file is too large or nested too deeply: use at most {NODES_MAX:,} values and "
                f"{DEPTH_MAX} levels",
                file=self._file,
                line=line,
            )
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
                self.problems.append(Problem(line, "a key must be a text"))
            elif key.value in entries:
                first = entries[key.value].line
                text = f"the key {key.value} is in line {first} already: remove one of the two"
                self.problems.append(Problem(line, text))
            else:
                entries[str(key.value)] = self.node(value, line, depth + 1)
        return entries


def _line(found: yaml.Node) -> int:
    return int(found.start_mark.line) + 1
