"""`moldau doctor` says whether the Java that Spark would use fits it."""

from __future__ import annotations

import pytest

from moldau.cli.doctor.finding import Verdict
from moldau.spark.examination import examine, spark_findings
from moldau.spark.java import Java


@pytest.mark.parametrize(
    ("spark", "java", "verdict", "words"),
    [
        ("4.3.0", Java("/j", 17, "JAVA_HOME=/j"), Verdict.OK, "Java 17"),
        ("4.3.0", Java("/j", 99, "/usr/bin/java"), Verdict.WARNING, "Java 99"),
        ("3.5.1", Java("/j", 17, "/usr/bin/java"), Verdict.WARNING, "Spark 3.5.1"),
        ("4.3.0", "Spark needs Java; found: no Java", Verdict.WARNING, "no Java"),
    ],
)
def test_a_java_is_judged_beside_its_spark(
    spark: str, java: Java | str, verdict: Verdict, words: str
) -> None:
    (found,) = spark_findings(spark, java)

    assert found.verdict is verdict
    assert words in found.found
    assert bool(found.cure) == (verdict is not Verdict.OK)


def test_without_spark_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moldau.spark.examination.version_of", lambda _: None)

    assert examine({}) == []


def test_a_missing_java_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moldau.spark.examination.version_of", lambda _: "4.3.0")
    monkeypatch.setattr("moldau.spark.java._packaged", lambda: None)

    (found,) = examine({"PATH": "/no-such-folder"})

    assert found.verdict is Verdict.WARNING
    assert "no Java at all" in found.found
