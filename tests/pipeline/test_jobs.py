"""Jobs of a pipeline: PySpark scripts that lint, plan, draw, run and status know."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from moldau.operations.plan import Action
from moldau.pipeline.data_directory import FINISHED, PartState
from moldau.pipeline.jobs import job_error_in, job_words
from moldau.pipeline.picture import pipeline_svg, pipeline_text
from moldau.pipeline.plan import Facts, plan
from moldau.pipeline.status import HEALTHY, Snapshot, status_rows
from tests.pipeline.files import JOB, problem_lines, read
from tests.pipeline.running import Folder, wait_until

JOBS = """\
pipeline: orders
topics:
  orders: {external: true}
  large: {partitions: 2}
jobs:
  large-orders:
    script: large.py
    reads: [orders]
    writes: [large]
    group: large-orders
    arguments: [--least, "100"]
    config:
      spark.master: local[2]
      spark.packages: org.example:lib:1.0
      spark.conf.sql.shuffle.partitions: "2"
sinks:
  write:
    connector.class: FileStreamSink
    topics: large
    file: large.jsonl
"""
FILES = {"/srv/p/large.py": "print('here')\n"}


def lint(text: str, **files: str) -> list[str]:
    found = {f"/srv/p/{name.replace('_py', '.py')}": each for name, each in files.items()}
    return problem_lines(text, files={**FILES, **found})


def test_a_job_is_known_with_its_topics() -> None:
    found = read(JOBS, files=FILES)
    assert found.problems == ()
    (job,) = found.pipeline.jobs
    assert (job.path, job.reads, job.writes) == ("/srv/p/large.py", ("orders",), ("large",))
    assert found.pipeline.writers_of("large") == ["large-orders"]
    assert found.pipeline.readers_of("orders") == ["large-orders"]
    assert found.pipeline.groups == ("large-orders", "connect-write")
    assert job_words(job) == [
        "spark", "run", "--master", "local[2]", "--name", "large-orders",
        "--conf", "spark.sql.shuffle.partitions=2",
        "--conf", "spark.jars.packages=org.example:lib:1.0",
        "/srv/p/large.py", "--least", "100",
    ]  # fmt: skip


def test_a_job_on_a_spark_connect_server_has_its_address() -> None:
    config = "{spark.deploy: remote, spark.remote: 'sc://spark:15002'}"
    head, _, tail = JOBS.partition("    config:\n")
    text = f"{head}    config: {config}\n{tail[tail.index('sinks:') :]}"
    (job,) = read(text, files=FILES).pipeline.jobs
    assert lint(text) == []
    assert job_words(job)[:4] == ["spark", "run", "--remote", "sc://spark:15002"]
    assert job.place == "large.py, on Spark sc://spark:15002"


def test_plan_and_pictures_show_it() -> None:
    pipeline = read(JOBS, files=FILES).pipeline
    step = next(each for each in plan(pipeline, Facts()).steps if each.kind == "job")
    assert (step.action, step.name) == (Action.START, "large-orders")
    assert step.note == "large.py, on Spark local[2]"
    assert pipeline_text(pipeline) == (
        "pipeline orders\n"
        "orders  topic, 1 partition, external\n"
        "  -> large-orders  job large.py, on Spark local[2]\n"
        "    -> large  topic, 2 partitions\n"
        "      -> write  sink FileStreamSink\n"
    )
    svg = pipeline_svg(pipeline)
    assert 'class="job"' in svg
    assert "job: large.py, on Spark local[2]" in svg


def test_status_has_a_row_for_it() -> None:
    pipeline = read(JOBS, files=FILES).pipeline
    parts = {"job large-orders": PartState("job", state=FINISHED, restarts=1)}
    now = Snapshot(0.0, parts)
    row = next(each for each in status_rows(pipeline, now, now) if each.part == "large-orders")
    assert (row.kind, row.state, row.restarts, row.lag) == ("job", "FINISHED", 1, None)
    assert row.state in HEALTHY


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("large.py", "none.py", "7: error: jobs.large-orders: /srv/p/none.py: No such file or"),
        ("large.py", "bad.py", "7: error: jobs.large-orders: /srv/p/bad.py, line 1: invalid"),
        ("reads:", "read:", "8: error: jobs.large-orders has no key read; did you mean reads?"),
        ("reads: [orders]", "reads: [order]", "reads order, which is not under topics"),
        ("spark.master:", "spark.mastr:", "has no key spark.mastr; did you mean spark.master?"),
        (
            "local[2]",
            "${env:MASTER}",
            "jobs.large-orders.config.spark.master cannot be a reference",
        ),
        ("local[2]", "loca[2]", "config.spark.master: 'loca[2]' is no Spark master"),
        ("spark.master: local[2]", "spark.deploy: submit", "must be local or remote"),
        (
            "spark.master: local[2]",
            "spark.deploy: remote",
            "spark.deploy=remote needs spark.remote",
        ),
        ("spark.master: local[2]", "spark.remote: sc://a", "needs spark.deploy: remote"),
        ("writes: [large]", "writes: [orders]", "records run in a circle"),
        ("  large-orders:", "  write:", "jobs.write has that name already"),
        ("    script: large.py\n", "", "6: error: jobs.large-orders: name either its"),
    ],
)
def test_mistakes_are_found_with_their_lines(old: str, new: str, expected: str) -> None:
    assert old in JOBS
    lines = lint(JOBS.replace(old, new, 1), bad_py="1 +\n")
    assert any(expected in each for each in lines), lines


FOLDER = (
    JOBS.replace("script: large.py", "folder: large")
    .replace('    arguments: [--least, "100"]\n', "    every: 60\n")
    .replace("      spark.packages: org.example:lib:1.0\n", "")
)
SPEC = """\
name: large
storage: file:///srv/p/storage
libraries: [{glob: {include: "transformations/**"}}]
"""


def lint_folder(
    spec: str = SPEC, text: str = FOLDER, name: str = "spark-pipeline.yml"
) -> list[str]:
    return problem_lines(text, files={f"/srv/p/large/{name}": spec})


SPARK_LOG = """\
26/11/29 02:46:06 ERROR MicroBatchExecution: Query [id = 43969, runId = 515a] terminated with error
org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] Traceback (most recent call last):
  File "large.py", line 6, in f
ValueError: row 0 is bad

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1097)
Traceback (most recent call last):
  File "large.py", line 12, in <module>
    q.awaitTermination()
"""
QUERY = (
    "pyspark.errors.exceptions.captured.StreamingQueryException: [STREAM_FAILED] Query [id = 43969,"
    " runId = 515a] terminated with exception: "
)
ENDS = (
    (f"{QUERY}[PYTHON_EXCEPTION] Traceback (most recent call last):\n"
     '  File "large.py", line 6, in f\nValueError: row 0 is bad\n SQLSTATE: 39000\n'
     "=== Streaming Query ===\nIdentifier: [id = 43969]\n", "ValueError: row 0 is bad"),
    (f"{QUERY}[USER_RAISED_EXCEPTION] no such SQLSTATE: P0001 SQLSTATE: XXKST\n"
     "=== Streaming Query ===\nIdentifier: [id = 43969]\n", "[USER_RAISED_EXCEPTION] no such"),
    (f"{QUERY}\nmoldau.errors.ConfigError: topic orders is not there\n",
     "ConfigError: topic orders is not there"),
    ("__main__.BadRow: seven\n", "BadRow: seven"),
    ("AssertionError\n", "AssertionError"),
    ('  File "py4j/clientserver.py", line 438, in connect\n'
     "ConnectionRefusedError: [Errno 111] Connection refused\n",
     "Spark's Java process has died -> look for the kernel's out-of-memory killer"),
    ("ValueError: seven\nmoldau: the cluster is away\n", "the cluster is away"),
)  # fmt: skip


@pytest.mark.parametrize(("end", "cause"), ENDS)
def test_the_last_error_of_a_script_is_its_cause(end: str, cause: str) -> None:
    found = job_error_in(SPARK_LOG + end)

    assert found is not None
    assert found == cause or (" -> " in cause and found.startswith(cause))
    assert job_error_in("all is well\n") is None


def test_a_folder_of_declarative_pipelines_is_a_job() -> None:
    found = read(FOLDER, files={"/srv/p/large/spark-pipeline.yaml": SPEC})
    assert found.problems == ()
    (job,) = found.pipeline.jobs
    assert (job.path, job.is_folder, job.every_s) == ("/srv/p/large", True, 60)
    assert job.place == "large/, on Spark local[2]"
    assert job_words(job) == [
        "spark", "pipelines", "--master", "local[2]", "--name", "large-orders",
        "--conf", "spark.sql.shuffle.partitions=2", "/srv/p/large",
    ]  # fmt: skip
    assert "  -> large-orders  job large/, on Spark local[2]\n" in pipeline_text(found.pipeline)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (SPEC.replace("name: large\n", ""), "/srv/p/large/spark-pipeline.yml: name is missing"),
        (f"{SPEC}librarys: []\n", "spark-pipeline.yml:4: a spec has no key librarys; did you mean"),
        ("- a\n", "it must be a mapping with name, storage and libraries"),
    ],
)
def test_mistakes_in_the_spec_of_a_folder_are_found(spec: str, expected: str) -> None:
    (line,) = lint_folder(spec)
    assert line.startswith("7: error: jobs.large-orders: ")
    assert expected in line


def test_a_job_has_a_script_or_a_folder_with_one_spec() -> None:
    (none,) = lint_folder(name="spark-pipelines.yml")
    assert "/srv/p/large has no spec: it needs one spark-pipeline.yml" in none
    both = FOLDER.replace("    folder: large\n", "    folder: large\n    script: large.py\n")
    assert any(
        "6: error: jobs.large-orders: name either" in each for each in lint_folder(text=both)
    )
    assert lint_folder(text=FOLDER.replace("every: 60", "every: 0"))[0].startswith(
        "11: error: jobs.large-orders.every: input should be greater than or equal to 1"
    )


_COPY = """\
import sys

from moldau.client.sync import Consumer, Producer
from moldau.spark import cluster_settings

cluster, marker = cluster_settings(), sys.argv[1]
with Consumer(cluster, group_id="upper", auto_offset_reset="earliest") as consumer:
    consumer.subscribe(["lines"])
    with Producer(cluster) as producer:
        try:
            while True:
                for part in consumer.poll(0.2):
                    for each in part.records:
                        producer.send("upper", each.value.upper())
                producer.flush()
                consumer.commit()
        finally:
            open(marker, "w").write("ended in order")
"""
_MORE = """\
    arguments: [ended.txt]
  once:
    script: once.py
    reads: [lines]
  again:
    script: again.py
    reads: [lines]
    every: 1
"""


@pytest.mark.real
@pytest.mark.deep
def test_jobs_run_beside_the_other_parts(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "words")
    folder.path.mkdir()
    for name, text in (
        ("pipeline.yaml", JOB + _MORE),
        ("upper.py", _COPY),
        ("once.py", "print('done')\n"),
        ("again.py", "open('again.txt', 'a').write('x')\n"),
        ("input.txt", "to\nbe\n"),
    ):
        (folder.path / name).write_text(text)
    out = folder.path / "out.txt"

    with folder.running() as run:
        wait_until(lambda: out.exists() and set(out.read_text().split()) >= {"TO", "BE"}, "output")
        wait_until(lambda: folder.state()["parts"]["job once"]["state"] == FINISHED, "the end")
        again = folder.path / "again.txt"
        wait_until(lambda: again.exists() and len(again.read_text()) > 1, "a second run")
        rows: dict[str, Any] = {}

        def has_lag() -> bool:
            status = json.loads(folder.moldau("pipeline", "status", "--json"))
            rows.update({each["part"]: each for each in status})
            return rows["make-upper"]["lag"] is not None

        wait_until(has_lag, "the job's group has committed")
        assert (rows["make-upper"]["kind"], rows["make-upper"]["state"]) == ("job", "RUNNING")
        assert (rows["once"]["state"], rows["once"]["lag"]) == (FINISHED, None)
        run.stop(signal.SIGINT)

    assert (folder.path / "ended.txt").read_text() == "ended in order"
    assert "job        make-upper (upper.py, on Spark local[1])" in run.said
    assert "job once has finished" in run.said


@pytest.mark.real
def test_a_job_that_fails_says_why_in_run_and_state(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "words")
    folder.path.mkdir()
    for name, text in (("pipeline.yaml", JOB), ("upper.py", "rows = 1 / 0\n"), ("input.txt", "")):
        (folder.path / name).write_text(text)

    with folder.running() as run:
        wait_until(lambda: folder.state()["parts"]["job make-upper"]["error"], "the failure")
        run.stop(signal.SIGINT)

    why = "job make-upper has ended (exit code 1): ZeroDivisionError: division by zero"
    assert any(why in each for each in run.said)
    assert folder.state()["parts"]["job make-upper"]["error"].startswith(why)
