"""Settings in YAML, without YAML's surprises.

Only PyYAML's tree of nodes is used, never constructed objects: a plain `on`, `0o17`, `1_000` or
`2024-01-01` stays text, and the setting's own type parses it. Null (`null`, `~` or nothing) is
null. Rejected are: a repeated key, a key without a colon, tags other than YAML's own scalars, merge
keys, several documents, and aliases that multiply (see `moldau.config.nested`).

Invariant: no error quotes the file, except for names of settings. A password that YAML parses as
something else (`*alias`, `{map}`) must not appear in a log, so PyYAML's messages are used only
without their quotes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.config.given import Layer
from moldau.config.nested import FlatSettings
from moldau.deferred import deferred_pattern
from moldau.errors import ConfigError

if TYPE_CHECKING:
    import yaml

_TAG: Final = "tag:yaml.org,2002:"
_NULL: Final = _TAG + "null"
_SCALARS: Final = frozenset(
    _TAG + name for name in ("str", "int", "float", "bool", "null", "timestamp", "value")
)
_MAP: Final = _TAG + "map"
_LIST: Final = _TAG + "seq"
# PyYAML quotes text of the file like Python does, and names of tokens in the same way.
_QUOTED: Final = deferred_pattern(r"""[ ]?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
_TOKEN: Final = deferred_pattern(r" ?'(?:<[a-z ]+>|[]\[{},?:-])'")
_SECOND: Final = "but found another document"
_OWN_WORDS: Final = (
    "expected ",
    "found ",
    "but found ",
    "could not find ",
    "mapping ",
    "sequence ",
)


def load_yaml(text: str, file: str = "<text>") -> Layer:
    """Return the settings of one YAML document; an empty one has none."""
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = {} if mark is None else {"line": mark.line + 1, "column": mark.column + 1}
        raise ConfigError(f"not YAML: {_own_words(error.problem)}", file=file, **place) from None
    except yaml.reader.ReaderError as error:
        line, column = _place(text, error.position)
        reason = f"not YAML: {error.reason}"
        raise ConfigError(reason, file=file, line=line, column=column) from None
    except (OverflowError, ValueError):  # an escape beyond the last character, a huge version
        raise ConfigError("not YAML: a number is too large", file=file) from None
    except RecursionError:
        raise ConfigError("nested too deeply", file=file) from None
    walk = _Walk(text, file)
    if root is not None and root.tag != _NULL:
        walk.map(root, ())
    return walk.flattening.layer()


def _own_words(problem: str | None) -> str:
    """Return PyYAML's message without the text that it quotes from the file."""
    if problem is None or not problem.startswith(_OWN_WORDS):
        return "malformed"
    if problem.startswith(_SECOND):
        return "a file has one document, and --- begins another: use a file for each"
    words = _QUOTED.sub(lambda match: match[0] if _TOKEN.fullmatch(match[0]) else "", problem)
    return words.removesuffix(", but found")


def _place(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    return before.count("\n") + 1, position - before.rfind("\n")


class _Walk:
    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.flattening = FlatSettings(file)

    def refuse(self, reason: str, node: yaml.Node) -> ConfigError:
        mark = node.start_mark
        return ConfigError(reason, file=self.file, line=mark.line + 1, column=mark.column + 1)

    def map(self, node: yaml.Node, path: tuple[str, ...]) -> None:
        if node.tag != _MAP:
            raise self.refuse("here must be a map of settings", node)
        self.flattening.enter(path, node.start_mark.line + 1)
        keys: set[str] = set()
        for key_node, value_node in node.value:
            key = self.key(key_node)
            if self.is_missing(value_node, key_node):
                # Its name is not shown: `password: {secret}` is a map with such a key.
                raise self.refuse("a key without a colon", key_node)
            if key in keys:
                raise self.refuse(f"the key {key!r} stands twice in one map", key_node)
            keys.add(key)
            self.value(value_node, (*path, key), key_node.start_mark.line + 1)

    def is_missing(self, value: yaml.Node, key: yaml.Node) -> bool:
        """Whether there is not even a colon after `key`: then PyYAML invents an empty value."""
        start, end = key.end_mark.index, value.end_mark.index
        # The value of an alias is in another place, mostly before the key.
        return value.value == "" and start <= end and ":" not in self.text[start:end]

    def key(self, node: yaml.Node) -> str:
        if node.tag == _TAG + "merge":
            raise self.refuse("merge keys (<<) are not understood", node)
        if node.tag not in _SCALARS:
            raise self.refuse("a key must be a plain name", node)
        return str(node.value)

    def value(self, node: yaml.Node, path: tuple[str, ...], line: int) -> None:
        if node.tag == _MAP:
            self.map(node, path)
        elif node.tag == _LIST:
            items = tuple(self.scalar(item) or "" for item in node.value)
            self.flattening.add(path, items, line)
        else:
            self.flattening.add(path, self.scalar(node), line)

    def scalar(self, node: yaml.Node) -> str | None:
        if node.tag not in _SCALARS:
            raise self.refuse("not a plain value: text, a number, true, false or null", node)
        return None if node.tag == _NULL else str(node.value)
