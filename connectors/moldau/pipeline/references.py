"""Replace variables, `${var:name}`, and find references to values outside the file, `${env:NAME}`.

Variables are replaced when the file is read. References stay as they are, in every plan, picture
and connector config; the process that needs the value resolves them. So a secret is in no output,
no topic, and no command line. Relative paths in `${file:PATH:KEY}` and `${directory:PATH:FILE}`
count from the directory of the pipeline file.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Final

from moldau.config.file_problems import Problem, nearest, warning
from moldau.config.yaml_tree import Node
from moldau.deferred import dataclass

_REFERENCE: Final = re.compile(r"\$\{(env|file|directory):(?:([^}:]*):)?([^}:]+)\}")
_VARIABLE: Final = re.compile(r"\$\{var:([^}]*)\}")
_SHELL_STYLE: Final = re.compile(r"\$\{(\w+)\}")
_CLASSES: Final = {
    "env": "EnvVarConfigProvider",
    "file": "FileConfigProvider",
    "directory": "DirectoryConfigProvider",
}


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """A reference to a value outside the pipeline file."""

    provider: str
    path: str
    key: str

    @property
    def file(self) -> str:
        """The file that the reference reads."""
        return posixpath.join(self.path, self.key) if self.provider == "directory" else self.path

    def __str__(self) -> str:
        path = f"{self.path}:" if self.path else ""
        return f"${{{self.provider}:{path}{self.key}}}"


def references_in(texts: Iterable[str]) -> list[Reference]:
    """Return the references in these texts, sorted, each once."""
    found = {
        Reference(match.group(1), match.group(2) or "", match.group(3))
        for text in texts
        for match in _REFERENCE.finditer(text)
    }
    return sorted(found)


def has_reference(text: str) -> bool:
    return _REFERENCE.search(text) is not None


def provider_settings(references: Iterable[Reference]) -> dict[str, str]:
    """Return the settings of a Connect worker that may read these values and no others."""
    kinds: dict[str, set[str]] = {}
    for each in references:
        allowed = re.escape(each.key) if each.provider == "env" else each.file
        kinds.setdefault(each.provider, set()).add(allowed)
    if not kinds:
        return {}
    settings = {"config.providers": ",".join(sorted(kinds))}
    for kind, names in kinds.items():
        prefix = f"config.providers.{kind}"
        settings[f"{prefix}.class"] = _CLASSES[kind]
        if kind == "env":
            settings[f"{prefix}.param.allowlist.pattern"] = "|".join(sorted(names))
        else:
            settings[f"{prefix}.param.allowed.paths"] = ",".join(sorted(names))
    return settings


class Variables:
    """The variables of a pipeline file. A value may use other variables."""

    def __init__(self, root: Node, given: Mapping[str, str], base: str) -> None:
        """The values in `given` win over those in the file. Relative paths of references count
        from `base`."""
        section = root.entries().get("variables")
        own = {} if section is None else section.entries()
        self._own = {
            name: Node(each.line, given.get(name, each.value))
            for name, each in own.items()
            if isinstance(each.value, str) or name in given
        }
        self._base = base
        self._values: dict[str, str] = {}
        self.problems = [
            Problem(root.line, f"--var {name}: the file has no such variable{nearest(name, own)}")
            for name in given
            if name not in own
        ]
        for name in self._own:
            self._value(name, ())

    def _value(self, name: str, users: tuple[str, ...]) -> str:
        """Return the value of a variable. `users` are the variables that use it."""
        if name not in self._values:
            node = self._own[name]
            assert isinstance(node.value, str)
            self._values[name] = self._text(node.value, node.line, (*users, name))
        return self._values[name]

    def _text(self, text: str, line: int, users: tuple[str, ...] = ()) -> str:
        def variable(found: re.Match[str]) -> str:
            name = found.group(1)
            if name not in self._own:
                text = f"there is no variable {name} under variables{nearest(name, self._own)}"
            elif name in users:
                circle = " -> ".join((*users[users.index(name) :], name))
                text = f"variables use each other in a circle: {circle}"
            else:
                return self._value(name, users)
            self.problems.append(Problem(line, text))
            return ""

        for name in _SHELL_STYLE.findall(text):
            # Connectors have names of their own, such as ${topic}.
            if name in self._own or name.isupper():
                hint = f"`${{{name}}}` is no reference: write ${{var:{name}}} or ${{env:{name}}}"
                self.problems.append(warning(line, hint))
        return _absolute(_VARIABLE.sub(variable, text), self._base)

    def replace(self, node: Node) -> Node:
        """Return the tree with all variables replaced and the paths of references made absolute."""
        value = node.value
        if isinstance(value, dict):
            return Node(node.line, {name: self.replace(each) for name, each in value.items()})
        if isinstance(value, list):
            return Node(node.line, [self.replace(each) for each in value])
        return node if value is None else Node(node.line, self._text(value, node.line))


def _absolute(text: str, base: str) -> str:
    def absolute(found: re.Match[str]) -> str:
        provider, path, key = found.group(1), found.group(2) or "", found.group(3)
        if provider != "env" and path and not posixpath.isabs(path):
            path = posixpath.normpath(posixpath.join(base, path))
        return str(Reference(provider, path, key))

    return _REFERENCE.sub(absolute, text)
