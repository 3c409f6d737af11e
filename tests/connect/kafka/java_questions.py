"""What is asked about Java's regular expressions and date patterns, and about ConfigDefs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Question = dict[str, Any]

_REGEX: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (r"(\w+)-(\d+)", ("abc-12", "abc", "x-1-y"), "$2.$1"),
    (r"(?<name>a+)b", ("aab", "b"), "${name}!"),
    (r"(?<name>a)\k<name>", ("aa", "ab"), "${other}"),
    (r"\Qa.b\E.*", ("a.bc", "axbc"), "x"),
    (r"\Qa.b", ("a.b", "a.bc"), "x"),
    (r"[a-c[x-z]]+", ("abxyz", "abm"), "x"),
    (r"[a-z&&[^aeiou]]+", ("bcd", "bad"), "x"),
    (r"[a-z&&[def]]+", ("def", "abc"), "x"),
    (r"[^a-c[x-z]]+", ("mno", "abc", "xyz"), "x"),
    (r"\p{Lower}+\p{Upper}\p{Digit}", ("abC1", "abc"), "x"),
    (r"\p{L}+", ("abc", "\u00e4\u00f6\u4e2d", "1"), "x"),
    (r"\p{Lu}\P{Lu}", ("Ab", "AB", "\u00c4b"), "x"),
    (r"[\p{Alpha}_]+", ("a_b", "a-b"), "x"),
    (r"[^\p{Alnum}]+", ("--", "a"), "x"),
    (r"\p{Punct}+", ("!~[", "a"), "x"),
    (r"\d+", ("12", "\u0661\u0662"), "x"),
    (r"\w+", ("a_1", "\u00e4"), "x"),
    (r"(?i)abc", ("ABC", "abd"), "x"),
    (r"(?i)\u00e4", ("\u00c4", "\u00e4"), "x"),
    (r"a(?i)b|c", ("aB", "C", "A"), "x"),
    (r"a(?i:b)c", ("aBc", "aBC"), "x"),
    (r"(?s).+", ("a\nb",), "x"),
    (r".+", ("a\nb", "a\rb", "a\u2028b", "ab"), "x"),
    (r"(?x) a b # comment", ("ab", "a b"), "x"),
    (r"a++b", ("aab", "b"), "x"),
    (r"(?>a+)b", ("aab", "ab"), "x"),
    (r"a*?b", ("aab",), "x"),
    (r"(?=a)\w+", ("abc", "bc"), "x"),
    (r"(?<!a)b", ("b", "ab"), "x"),
    (r"(?<=a)b", ("ab", "b"), "x"),
    (r"\Aab\z", ("ab", "ab\n"), "x"),
    (r"\h+\v\R", (" \t\n\r\n", "x"), "x"),
    (r"\x41\u0042\x{43}\0104", ("ABCD", "abcd"), "x"),
    (r"\t\n\e\cA", ("\t\n\x1b\x01",), "x"),
    (r"[]a]+", ("]a", "b"), "x"),
    (r"[a\-z]+", ("a-z", "b"), "x"),
    (r"[&~|]+", ("&~|", "a"), "x"),
    (r"a{2,3}", ("aa", "aaaa"), "x"),
    (r"(a)(b)?", ("a", "ab"), "[$2]"),
    (r"(a)", ("a",), "$12"),
    (r"(a)", ("a",), "$2"),
    (r"(a)", ("a",), "\\$1\\\\"),
    (r"(a)", ("a",), "$"),
    (r"(a)", ("a",), "x\\"),
    (r"(a)", ("a",), "${1}"),
    ("(", ("a",), "x"),
    ("a)", ("a",), "x"),
    ("[a", ("a",), "x"),
    ("*a", ("a",), "x"),
    ("a{2,1}", ("a",), "x"),
    (r"\p{Nope}", ("a",), "x"),
    ("a\\", ("a",), "x"),
    (r"(?<1a>x)", ("x",), "x"),
    (r"orders-([0-9]{4})\.(.*)", ("orders-2026.eu", "orders-26.eu"), "o_$1_$2"),
    (r"^(.*)$", ("abc", "a\n"), "pre.$1"),
)
_MOMENTS = (
    0,
    -1,
    1_770_091_506_789,
    951_782_399_999,
    1_798_761_600_000 - 1,
    1_798_675_200_000,
    -2_208_988_800_000,
    253_402_300_799_999,
)
_PATTERNS = (
    "yyyyMMdd",
    "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
    "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'",
    "yy-M-d H:m:s.S",
    "EEE, d MMM yyyy hh:mm:ss a z",
    "EEEE dd MMMM y G",
    "D F u k K h W w YYYY yyyyy",
    "HHmmssSSS",
    "'it''s' yyyy",
    "yyyy''MM",
    "Z X XX XXX zzzz",
    "LLL LLLL LL",
    "yyyy-MM-dd b",
    "XXXX",
    "'open",
    "",
)
_TEXTS: tuple[tuple[str, str], ...] = (
    ("yyyyMMdd", "20260203"),
    ("yyyyMMdd", "20261345"),
    ("yyyyMMdd", "2026020"),
    ("yyyyMMdd", "x"),
    ("yyyyMMdd", ""),
    ("yyyy-MM-dd", "2026-2-3 and more"),
    ("yyyy-MM-dd", " 2026- 2- 3"),
    ("yyyy-MM-dd", "2026/02/03"),
    ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2026-02-03T04:05:06.789+01:30"),
    ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2026-02-03T04:05:06.789Z"),
    ("yyyy-MM-dd HH:mm Z", "2026-02-03 04:05 -0800"),
    ("yyyy-MM-dd HH:mm z", "2026-02-03 04:05 PST"),
    ("yyyy-MM-dd HH:mm z", "2026-02-03 04:05 UTC"),
    ("yyyy-MM-dd HH:mm z", "2026-02-03 04:05 GMT+02:00"),
    ("yyyy-MM-dd HH:mm z", "2026-02-03 04:05 Nowhere"),
    ("EEE, d MMM yyyy hh:mm:ss a", "Tue, 3 Feb 2026 12:05:06 am"),
    ("EEE, d MMM yyyy hh:mm:ss a", "tuesday, 3 FEBRUARY 2026 12:05:06 PM"),
    ("d MMM yyyy", "3 Foo 2026"),
    ("HH:mm:ss.SSS", "25:61:61.1234"),
    ("HH:mm:ss.S", "01:02:03.5"),
    ("kk:mm", "24:05"),
    ("KK:mm a", "00:05 PM"),
    ("yyyy D", "2026 40"),
    ("y", "99"),
    ("yyyy", "99"),
    ("yy", "05"),
    ("yy", "1999"),
    ("HHmmss", "040506"),
    ("'T'HH", "T04"),
    ("'T'HH", "04"),
)
_DEFINED = (
    "org.apache.kafka.connect.runtime.SinkConnectorConfig",
    "org.apache.kafka.connect.runtime.SourceConnectorConfig",
    "org.apache.kafka.connect.json.JsonConverter",
    "org.apache.kafka.connect.storage.StringConverter",
    "org.apache.kafka.connect.storage.SimpleHeaderConverter",
    "org.apache.kafka.connect.converters.ByteArrayConverter",
    "org.apache.kafka.connect.converters.BooleanConverter",
    "org.apache.kafka.connect.converters.LongConverter",
    "org.apache.kafka.connect.transforms.predicates.HasHeaderKey",
    "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
    "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
    *(
        f"org.apache.kafka.connect.transforms.{name}"
        for name in (
            "Cast$Value", "DropHeaders", "ExtractField$Value", "Filter", "Flatten$Value",
            "HeaderFrom$Value", "HoistField$Value", "InsertField$Value", "InsertHeader",
            "MaskField$Value", "RegexRouter", "ReplaceField$Value", "SetSchemaMetadata$Value",
            "TimestampConverter$Value", "TimestampRouter", "ValueToKey",
        )
    ),
)  # fmt: skip


def questions() -> list[Question]:
    """All of them, in a fixed order."""
    return [*_regexes(), *_dates(), *({"ask": "definition", "class": name} for name in _DEFINED)]


def _regexes() -> Iterator[Question]:
    for pattern, texts, replacement in _REGEX:
        for text in texts:
            yield {"ask": "regex", "pattern": pattern, "text": text, "replacement": replacement}


def _dates() -> Iterator[Question]:
    for pattern in _PATTERNS:
        for ms in _MOMENTS:
            yield {"ask": "format date", "pattern": pattern, "ms": ms}
    for pattern, text in _TEXTS:
        yield {"ask": "parse date", "pattern": pattern, "text": text}
