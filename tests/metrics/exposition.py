"""A strict reader of Prometheus' text format 0.0.4: refuses what the format forbids.

Written from the format's description and stricter than a scrape: it also wants HELP and TYPE for
each family, one space between tokens, and no timestamps, since we write it so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
_SAMPLE = re.compile(rf"({_NAME})(?:\{{({_LABEL}(?:,{_LABEL})*)\}})? (\S+)")
_PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|NaN|[+-]Inf")
_ESCAPE = re.compile(r"\\(.)")
_KINDS = ("counter", "gauge", "histogram", "summary", "untyped")

Labels = tuple[tuple[str, str], ...]


@dataclass
class ReadFamily:
    """One metric as it was written."""

    name: str
    doc: str
    kind: str = ""
    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def value(self, suffix: str = "", **labels: str) -> float:
        return self.samples[self.name + suffix, tuple(labels.items())]


def read_exposition(text: str) -> dict[str, ReadFamily]:
    """All families by name; AssertionError where the text is not what the format wants."""
    assert text == "" or text.endswith("\n"), "the last line must end"
    families: dict[str, ReadFamily] = {}
    current: ReadFamily | None = None
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            name, _, doc = line.removeprefix("# HELP ").partition(" ")
            assert re.fullmatch(_NAME, name), line
            assert re.fullmatch(r"(?:[^\\]|\\[\\n])*", doc), line
            assert name not in families, f"{name} is not one uninterrupted group"
            current = families[name] = ReadFamily(name, _unescape(doc))
        elif line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split(" ")
            assert current is not None
            assert name == current.name
            assert current.kind == "", "TYPE twice"
            assert not current.samples, "TYPE after samples"
            assert kind in _KINDS, line
            current.kind = kind
        else:
            assert current is not None, f"a sample of no family: {line!r}"
            assert current.kind, "a sample before TYPE"
            _read_sample(line, current)
    for family in families.values():
        if family.kind == "histogram":
            _check_histogram(family)
    return families


def _read_sample(line: str, family: ReadFamily) -> None:
    match = _SAMPLE.fullmatch(line)
    assert match is not None, f"not a sample: {line!r}"
    name, labels, number = match.groups()
    suffixes = ("_bucket", "_sum", "_count") if family.kind == "histogram" else ("",)
    assert name in [family.name + suffix for suffix in suffixes], f"{name} among {family.name}"
    pairs = tuple((key, _unescape(text)) for key, text in _PAIR.findall(labels or ""))
    assert len({key for key, _ in pairs}) == len(pairs), f"a label twice: {line!r}"
    assert _NUMBER.fullmatch(number), f"not a number: {line!r}"
    assert (name, pairs) not in family.samples, f"a sample twice: {line!r}"
    family.samples[name, pairs] = float(number)


def _check_histogram(family: ReadFamily) -> None:
    series: dict[Labels, list[tuple[float, float]]] = {}
    for (name, labels), count in family.samples.items():
        if name.endswith("_bucket"):
            assert labels[-1][0] == "le", "le is the last label"
            series.setdefault(labels[:-1], []).append((float(labels[-1][1]), count))
    counts = {labels for name, labels in family.samples if name.endswith("_count")}
    assert counts == set(series)
    for labels, buckets in series.items():
        bounds = [bound for bound, _ in buckets]
        assert bounds == sorted(set(bounds)), "le must ascend"
        assert bounds[-1] == float("inf"), "there must be +Inf"
        values = [count for _, count in buckets]
        assert values == sorted(values), "buckets add up"
        assert values[-1] == family.samples[f"{family.name}_count", labels]
        assert (f"{family.name}_sum", labels) in family.samples


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], text)
