"""Every suite of questions by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.connect.kafka import converter_questions, java_questions, transform_questions

SUITES: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "transforms": transform_questions.questions,
    "converters": converter_questions.questions,
    "java": java_questions.questions,
}
