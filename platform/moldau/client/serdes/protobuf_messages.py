"""Which messages a registered protobuf file has, and at which paths: of its descriptor or text.

Only names and their nesting are read of the text, which is all that a path needs. Registries that
give no descriptors (Apicurio's) give the text.

Paths have two readings, because serializers disagree about a nested message that stands behind a
map: protobuf makes a message of each map's entries, which Python's and Go's count and Java's does
not. `names_at` gives both where they differ, the one that counts first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_TOKEN: Final = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|(?P<string>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')"
    r"|(?P<word>\w[\w.]*)|(?P<sign>[^\s\w])",
    re.DOTALL,
)


@dataclass
class _Message:
    """`is_implied` where the file does not declare it as a message: a map's entries, a group."""

    name: str
    nested: list[_Message] = field(default_factory=list)
    is_implied: bool = False


@dataclass
class Messages:
    """Those of one file."""

    package: str = ""
    declared: list[_Message] = field(default_factory=list)

    def names_at(self, path: Sequence[int]) -> list[str]:
        """The full names of the message at the path; none where there is no message."""
        names = [self._name_at(path, counts_implied=each) for each in (True, False)]
        return list(dict.fromkeys(name for name in names if name is not None))

    def path_of(self, full_name: str) -> tuple[int, ...] | None:
        """Where the message is; None where it is not."""
        prefix = f"{self.package}." if self.package else ""
        if not full_name.startswith(prefix):
            return None
        path, messages = [], self.declared
        for name in full_name.removeprefix(prefix).split("."):
            index = next((at for at, each in enumerate(messages) if each.name == name), None)
            if index is None:
                return None
            path.append(index)
            messages = messages[index].nested
        return tuple(path)

    def _name_at(self, path: Sequence[int], *, counts_implied: bool) -> str | None:
        names, messages, found = [self.package] if self.package else [], self.declared, None
        for index in path:
            counted = [each for each in messages if counts_implied or not each.is_implied]
            if index >= len(counted):
                return None
            found = counted[index]
            names.append(found.name)
            messages = found.nested
        return None if found is None or found.is_implied else ".".join(names)


def messages_of_file(file: Any) -> Messages:
    """Of a `FileDescriptorProto`."""
    return Messages(file.package, [_of_descriptor(each) for each in file.message_type])


def _of_descriptor(message: Any) -> _Message:
    nested = [_of_descriptor(each) for each in message.nested_type]
    return _Message(message.name, nested, message.options.map_entry)


def messages_of_text(text: str) -> Messages:
    """Of a .proto file."""
    found = Messages()
    # The messages of the message that each brace around is in: groups in an extension, too.
    scopes = [found.declared]
    statement: list[str] = []
    for each in _tokens(text):
        if each == "{":
            if statement[:2] == ["map", "<"]:  # with an option whose value is in braces
                scopes[-1].append(_entry_of(statement))
            scopes.append(_opened(statement, scopes[-1]))
        elif each == "}":
            if len(scopes) > 1:
                scopes.pop()
        elif each == ";":
            if statement[:1] == ["package"]:
                found.package = "".join(statement[1:])
            elif statement[:2] == ["map", "<"]:
                scopes[-1].append(_entry_of(statement))
        else:
            statement.append(each)
            continue
        statement = []
    return found


def _opened(statement: list[str], around: list[_Message]) -> list[_Message]:
    """Whose messages are behind a brace after the statement."""
    if statement[-1:] == ["="]:
        return []  # an option's value, which has none, whatever its words are
    if statement[:1] in (["export"], ["local"]):  # since edition 2024
        statement = statement[1:]
    if len(statement) == 2 and statement[0] == "message":
        made = _Message(statement[1])
    elif "group" in statement[:2] and "=" in statement:
        made = _Message(statement[statement.index("=") - 1], is_implied=True)
    else:
        return around
    around.append(made)
    return made.nested


def _entry_of(statement: list[str]) -> _Message:
    name = statement[statement.index(">") + 1] if ">" in statement[:-1] else ""
    parts = [part[:1].upper() + part[1:] for part in name.split("_")]
    return _Message("".join(parts) + "Entry", is_implied=True)


def _tokens(text: str) -> Iterator[str]:
    """Words, numbers and signs; no comments, and of strings only that they are there."""
    for match in _TOKEN.finditer(text):
        if match["string"] is not None:
            yield '""'
        elif match["word"] is not None or match["sign"] is not None:
            yield match[0]
