"""Reads the file of `moldau console --roles`, and tells each mistake with its line.

roles:
  admin: {groups: [platform]}
  operator: {groups: [shop], users: [ann]}
  viewer: {users: ["*"]}
messages:                       # without this section every role sees all topics
  - {topics: [orders, "shop-*"], groups: [shop]}
masks:
  - {topics: ["*"], value: ["**.email"], headers: [authorization], how: hash}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final, NoReturn

from moldau.config.file_problems import Problem, nearest
from moldau.config.yaml_tree import Node, parse
from moldau.console.access.masks import WAYS, BadPath, MaskRule, Path, path_of
from moldau.console.access.roles import Holders, MessageRule, Policy, Role
from moldau.deferred import dataclass
from moldau.errors import ConfigError

_OTHERWISE: Final = "a file of roles is a YAML mapping: write it as docs/console.md shows"
SECTIONS: Final = ("roles", "messages", "masks")
_HOLDERS: Final = ("users", "groups")
_MESSAGES: Final = ("topics", *_HOLDERS)
_PARTS: Final = ("value", "key", "headers")
_MASKS: Final = ("topics", *_PARTS, "how")


class BadPolicy(ConfigError):
    """A file of roles with mistakes; the text has a line for each."""


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """What a file says. `has_names` is whether it names users or groups, which need a login."""

    policy: Policy
    has_names: bool
    has_roles: bool


def read_policy(text: str, file: str) -> PolicyFile:
    """Return the policy of a file's text. Raise ConfigError, with a line for each mistake."""
    root, problems = parse(text, file, _OTHERWISE)
    reader = _Reader(problems)
    sections = reader.entries(root, "", SECTIONS)
    roles = reader.roles(sections.get("roles"))
    rules = [reader.rule(each) for each in reader.items(sections.get("messages"), "messages")]
    masks = [reader.mask(each) for each in reader.items(sections.get("masks"), "masks")]
    if not sections and not problems:
        problems.append(Problem(1, f"the file says nothing: give it {', '.join(SECTIONS)}"))
    if problems:
        _refuse(problems, file)
    messages = tuple(rules) if "messages" in sections else None
    has_names = bool(roles) or messages is not None
    return PolicyFile(Policy(roles, messages, tuple(masks)), has_names, "roles" in sections)


def _refuse(problems: Iterable[Problem], file: str) -> NoReturn:
    raise BadPolicy("\n".join(each.format(file) for each in sorted(problems)))


@dataclass(slots=True)
class _Reader:
    """Reads parts of the file, and keeps the problems."""

    problems: list[Problem] = field(default_factory=list)

    def _wrong(self, line: int, text: str) -> None:
        self.problems.append(Problem(line, text))

    def entries(self, node: Node, where: str, known: Iterable[str]) -> dict[str, Node]:
        """Return the entries of a mapping with these keys only."""
        prefix = f"{where}: " if where else ""
        if not isinstance(node.value, dict):
            self._wrong(node.line, f"{prefix}it must be a mapping with {', '.join(known)}")
            return {}
        for name, each in node.value.items():
            if name not in known:
                text = f"{prefix}there is no {name}{nearest(name, known)}"
                self._wrong(each.line, f"{text} (known: {', '.join(known)})")
        return {name: each for name, each in node.value.items() if name in known}

    def items(self, node: Node | None, where: str) -> list[tuple[str, Node]]:
        """Return the items of a list, with their names in messages."""
        if node is None:
            return []
        if not isinstance(node.value, list):
            self._wrong(node.line, f"{where} must be a list: an entry a line, each with `- `")
            return []
        return [(f"{where}[{index}]", each) for index, each in enumerate(node.value)]

    def words(self, node: Node | None, where: str) -> tuple[str, ...]:
        """Return a list of texts, or one text."""
        if node is None:
            return ()
        given = node.value if isinstance(node.value, list) else [node]
        found = [each.value for each in given if isinstance(each.value, str) and each.value]
        if len(found) != len(given) or not found:
            self._wrong(node.line, f"{where} must be a text, or a list of texts")
        return tuple(found)

    def roles(self, node: Node | None) -> Mapping[Role, Holders]:
        """Return the section `roles`."""
        if node is None:
            return {}
        entries = self.entries(node, "roles", [role.word for role in Role])
        return {
            Role[name.upper()]: self._holders(each, f"roles.{name}", _HOLDERS)
            for name, each in entries.items()
        }

    def _holders(self, node: Node, where: str, known: Iterable[str]) -> Holders:
        entries = self.entries(node, where, known)
        users, groups = (self.words(entries.get(each), f"{where}.{each}") for each in _HOLDERS)
        if isinstance(node.value, dict) and not (users or groups):
            self._wrong(node.line, f"{where} has no users and no groups: give it one of them")
        return Holders(users, groups)

    def _topics(self, node: Node, entries: Mapping[str, Node], where: str) -> tuple[str, ...]:
        if isinstance(node.value, dict) and "topics" not in entries:
            self._wrong(node.line, f"{where} has no topics: add names or patterns of them")
        return self.words(entries.get("topics"), f"{where}.topics")

    def rule(self, item: tuple[str, Node]) -> MessageRule:
        """Return an entry of `messages`."""
        where, node = item
        entries = node.entries()
        return MessageRule(
            self._topics(node, entries, where), self._holders(node, where, _MESSAGES)
        )

    def mask(self, item: tuple[str, Node]) -> MaskRule:
        """Return an entry of `masks`."""
        where, node = item
        entries = self.entries(node, where, _MASKS)
        topics = self._topics(node, entries, where)
        value, key = (self._paths(entries.get(each), f"{where}.{each}") for each in _PARTS[:2])
        headers = self.words(entries.get("headers"), f"{where}.headers")
        if isinstance(node.value, dict) and not any(each in entries for each in _PARTS):
            self._wrong(node.line, f"{where} masks nothing: add {', '.join(_PARTS)}")
        how = entries.get("how")
        way = "stars" if how is None else str(how.value)
        if way not in WAYS and how is not None:
            text = f"{where}.how: {way} is none of {', '.join(WAYS)}{nearest(way, WAYS)}"
            self._wrong(how.line, text)
        return MaskRule(topics, way, key, value, headers)

    def _paths(self, node: Node | None, where: str) -> tuple[Path, ...]:
        found = []
        for text in self.words(node, where):
            try:
                found.append(path_of(text))
            except BadPath as error:
                self._wrong(node.line if node else 1, f"{where}: {error}")
        return tuple(found)
