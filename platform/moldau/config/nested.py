"""Nested maps, as in JSON, TOML and YAML, flattened to Kafka's dotted names.

    log:                        log.dirs = /a, /b
      dirs: [/a, /b]            log.retention.ms = 5000
      retention.ms: 5000

Dotted and nested keys mix freely; a name that occurs twice is rejected. Depth, the number of maps,
settings and items, and the length of all texts are limited, because YAML's aliases can make a small
file stand for an enormous tree. The resulting text always has a UTF-8 form: a lone surrogate, which
escapes can produce, is rejected.
"""

from __future__ import annotations

from moldau.config.given import GivenValue, Layer, RawValue, Source, SourceKind, is_writable
from moldau.errors import ConfigError

DEPTH_MAX = 32
COUNT_MAX = 100_000
CHARACTERS_MAX = 8 << 20  # of all names and values together
_BITS_MAX = 1024  # Python rejects numbers of many thousand digits, TOML limits them


class FlatSettings:
    """Collects the settings of one file; `add` is called for each value, in the file's order."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._visited = 0
        self._characters = 0
        self._given: dict[str, GivenValue] = {}

    def enter(self, path: tuple[str, ...], line: int | None = None) -> None:
        """Count one map. Raise ConfigError if the tree is too deep or too large."""
        self._check_depth(path, line)
        self._count(1, line)

    def _check_depth(self, path: tuple[str, ...], line: int | None) -> None:
        if len(path) > DEPTH_MAX:
            raise self._refusal("nested too deeply", line, limit=DEPTH_MAX)

    def _count(self, things: int, line: int | None) -> None:
        self._visited += things
        if self._visited > COUNT_MAX:
            raise self._refusal("too many settings", line, limit=COUNT_MAX)

    def add(self, path: tuple[str, ...], value: RawValue, line: int | None = None) -> None:
        self._check_depth(path, line)
        texts = value if isinstance(value, tuple) else (value or "",)
        self._count(max(1, len(texts)), line)
        # Checked before anything is joined: with an alias, a long name needs few bytes of the file.
        self._characters += sum(map(len, path)) + len(path) + sum(map(len, texts))
        if self._characters > CHARACTERS_MAX:
            raise self._refusal("too much text", line, limit=CHARACTERS_MAX)
        name = ".".join(path)
        if not (is_writable(name) and all(map(is_writable, texts))):
            raise self._refusal("half of a surrogate pair is no character", line)
        if name in self._given:
            raise self._refusal("the same setting twice", line, setting=name)
        self._given[name] = GivenValue(name, value, Source(SourceKind.FILE, self.file, line))

    def _refusal(self, reason: str, line: int | None, **facts: object) -> ConfigError:
        place = {} if line is None else {"line": line}
        return ConfigError(reason, file=self.file, **place, **facts)

    def layer(self) -> Layer:
        return tuple(self._given.values())


def flatten(tree: object, file: str) -> Layer:
    """Return the settings of a tree of dict, list, str, bool, int and None, from JSON or TOML."""
    if not isinstance(tree, dict):
        raise ConfigError("the file must be one map of settings", file=file)
    flattening = FlatSettings(file)
    _walk(tree, (), flattening)
    return flattening.layer()


def _walk(tree: dict[str, object], path: tuple[str, ...], flattening: FlatSettings) -> None:
    flattening.enter(path)
    for key, value in tree.items():
        below = (*path, key)
        if isinstance(value, dict):
            _walk(value, below, flattening)
        elif isinstance(value, list):
            items = tuple(_scalar(item, below, flattening.file) or "" for item in value)
            flattening.add(below, items)
        else:
            flattening.add(below, _scalar(value, below, flattening.file))


def _scalar(value: object, path: tuple[str, ...], file: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() <= _BITS_MAX:
        return str(value)
    reason = f"this {type(value).__name__} is no value for a setting"
    raise ConfigError(reason, file=file, setting=".".join(path))
