"""Where ours answers otherwise than Kafka, on purpose: a reason, and the questions it is for.

A difference that no question shows any more fails its test, so the list may only shrink.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

Question = dict[str, Any]
Applies = Callable[[Question], bool]


def _is(question: Question, ask: str, ending: str) -> bool:
    return question["ask"] == ask and str(question["class"]).endswith(ending)


def _number_of_no_width(question: Question) -> bool:
    if question["ask"] != "write" or question["schema"] is not None:
        return False
    value = question["value"]
    numeric = isinstance(value, int) or (isinstance(value, dict) and "$float" in value)
    narrow = ("ShortConverter", "IntegerConverter", "FloatConverter", "DoubleConverter")
    return numeric and question["class"].endswith(narrow)


def _date_as_text(question: Question) -> bool:
    return _is(question, "write", "StringConverter") and "$date" in str(question["value"])


def _payload(question: Question) -> str:
    data = question.get("bytes")
    return base64.b64decode(data).decode("utf-8", "replace") if data else ""


def _misfit(question: Question) -> bool:
    payloads = (
        '{"type":"string"},"payload":7', '"payload":"7"', '{"type":"int8"},"payload":300',
        '"payload":1.5', '{"type":"boolean"},"payload":1', '"payload":86400000}',
    )  # fmt: skip
    text = _payload(question)
    return _is(question, "read", "JsonConverter") and any(each in text for each in payloads)


def _strict_json(question: Question) -> bool:
    texts = ('{"a":1}x', "007", "18446744073709551616", "[1e400]")
    return _is(question, "read", "JsonConverter") and _payload(question) in texts


def _far_future(question: Question) -> bool:
    is_converter = question["ask"] == "transform" and "TimestampConverter" in question["class"]
    return is_converter and "seconds" in question["config"].values()


def _struct_default(question: Question) -> bool:
    if question["ask"] != "transform" or not question["class"].endswith("Value"):
        return False
    return "$struct" in str(question["record"]["value_schema"])


DIFFERENCES: Mapping[str, Applies] = {
    "a Python number has no width, so a converter of another width writes it if it fits": (
        _number_of_no_width
    ),
    "StringConverter writes dates in ISO 8601, not in the worker's language and time zone": (
        _date_as_text
    ),
    "JsonConverter refuses a payload that does not fit its schema; Java makes it 0 or null": (
        _misfit
    ),
    "JSON is read strictly: no leading zeros, nothing behind the end, no number cut to 64 bits": (
        _strict_json
    ),
    "dates are limited to the years 1 to 9999": _far_future,
    "the Gregorian calendar holds for all dates": lambda question: (
        question["ask"] == "parse date" and question["pattern"] == "yyyy"
    ),
    "a replacement that names a missing group is refused at once, not at the first match": (
        lambda question: question["ask"] == "regex" and question["replacement"] == "${other}"
    ),
    "values of enums may be written in any case": lambda question: (
        question["ask"] == "transform" and question["config"].get("target.type") == "date"
    ),
    "SetSchemaMetadata works on schemas that are no structs": lambda question: (
        question["ask"] == "transform"
        and "SetSchemaMetadata" in question["class"]
        and question["record"]["value"] == "a text"
    ),
    "defaults of structs do not get in the way; Java compares their schemas and fails": (
        _struct_default
    ),
    "MaskField and TimestampConverter take nested paths too (field.syntax.version)": (
        lambda question: (
            question["ask"] == "definition"
            and any(each in question["class"] for each in ("MaskField", "TimestampConverter"))
        )
    ),
}
