"""`moldau spark run|submit`: the job gets Spark, Java and the data source; its exit code counts."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.runtime.node_processes import free_ports
from moldau.spark import java, session
from moldau.spark.command import submit_args
from moldau.spark.submit import submit_options
from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell
from tests.client.guides import programs, text_of
from tests.connectors.spark.runners import need_spark, orders
from tests.spark.topics import make_topic, send

JOB = """import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
options = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": sys.argv[2]}
rows = spark.read.format("moldau").options(**options).load()
print("told", rows.count(), spark.sparkContext.master, spark.sparkContext.appName)
print("told", spark.conf.get("spark.sql.shuffle.partitions"), sys.argv[3:])
sys.exit(3)
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    found = tmp_path / "job.py"
    found.write_text(JOB)
    return found


@pytest.fixture
def shell() -> Shell:
    return Shell("localhost:1")


def test_words_of_the_user_stay_and_those_of_the_command_count_more() -> None:
    given = "--jars 'a b.jar' --master yarn pyspark-shell"

    found = submit_args(given, {"master": "local[2]"}, {"spark.x": "two words"})

    assert shlex.split(found) == [
        "--jars", "a b.jar", "--master", "yarn", "--master", "local[2]",
        "--conf", "spark.x=two words", "pyspark-shell",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "missing.py"], "the script missing.py does not exist"),
        (["run", "--conf", "spark.x", "{job}"], "--conf spark.x: write spark.NAME=VALUE"),
        (["run", "--conf", "x=1", "{job}"], "--conf x=1: write spark.NAME=VALUE"),
        (["run", "--remote", "sc://h", "--master", "local", "{job}"], "because the server decides"),
        (["submit"], "name a script: moldau spark submit"),
        (["run", "--master", "sprk://x", "{job}"], "Spark has no such master: use local"),
        (["run", "--remote", "http://h", "{job}"], "the address of a Spark Connect server: sc://"),
        (["pipelines", "."], "the folder has no spec: it needs one spark-pipeline.yml"),
        (["submit", "--master=sprk://x", "{job}"], "Spark has no such master: use local"),
        (["submit", "--remote", "http://h", "{job}"], "address of a Spark Connect server: sc://"),
    ],
)
def test_what_cannot_be_run_is_one_line(
    shell: Shell, job: Path, words: list[str], told: str
) -> None:
    pytest.importorskip("pyspark")
    done = shell("spark", *[each.format(job=job) for each in words])

    assert done.code == 2
    assert done.err.startswith("moldau: ")
    assert told in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("action", ["run", "submit"])
def test_no_spark_is_one_line(
    shell: Shell, job: Path, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "find_spec", lambda _name: None)

    done = shell("spark", action, str(job))

    assert done.err.startswith("moldau: Spark is not installed: pip install")
    assert (done.code, done.err.count("\n")) == (2, 1)


@pytest.mark.parametrize("action", ["run", "submit"])
def test_no_java_is_one_line(
    shell: Shell, job: Path, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setattr(java, "_packaged", lambda: None)
    shell.environment |= {"PATH": "", "JAVA_HOME": ""}

    done = shell("spark", action, str(job))

    assert done.err.startswith("moldau: Spark needs Java 17")
    assert (done.code, done.err.count("\n")) == (2, 1)


def test_a_master_that_does_not_answer_is_told_before_java_starts(shell: Shell, job: Path) -> None:
    pytest.importorskip("pyspark")
    for option, scheme in (("--master", "spark"), ("--remote", "sc")):
        if scheme == "sc":
            pytest.importorskip("grpc", reason="Spark Connect needs it")
        done = shell("spark", "run", option, f"{scheme}://127.0.0.1:{free_ports(1)[0]}", str(job))
        assert "answers: start it" in done.err
        assert done.err.count("\n") == 1


def test_submit_finds_a_master_that_does_not_answer(shell: Shell, job: Path) -> None:
    pytest.importorskip("pyspark")
    master = f"spark://127.0.0.1:{free_ports(1)[0]}"
    for words in (["--master", master], ["-v", "--conf", "spark.x=1", f"--master={master}"]):
        done = shell("spark", "submit", *words, str(job))
        assert done.err.startswith("moldau: no Spark master answers: start it")
        assert done.err.count("\n") == 1


def test_options_of_a_submit_end_at_the_script() -> None:
    words = ["--master", "yarn", "--verbose", "--conf", "a=b", "--name=x y", "job.py"]

    found = submit_options([*words, "--master", "spark://not-an-option"])

    assert found == {"--master": "yarn", "--conf": "a=b", "--name": "x y"}
    assert submit_options(["job.py", "--master", "x"]) == {}
    assert submit_options(["--help", "--master"]) == {"--master": ""}


def run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        [sys.executable, "-m", "moldau.cli", "spark", *words],
        cwd=folder, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


@pytest.mark.real
def test_a_job_reads_a_topic_and_its_exit_code_is_that_of_the_command(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, job: Path
) -> None:
    need_spark()
    make_topic(moldau_broker, moldau_topic, 2)
    send(moldau_broker, moldau_topic, orders(30))
    settings = ["--master", "local[1]", "--conf", "spark.sql.shuffle.partitions=7"]
    arguments = [moldau_broker.bootstrap_servers, moldau_topic, "--conf", "two words"]

    done = run("run", *settings, "--name", "my job", str(job), *arguments, folder=job.parent)

    told = [line for line in done.stdout.splitlines() if line.startswith("told")]
    assert told == ["told 30 local[1] my job", "told 7 ['--conf', 'two words']"], done.stderr
    assert done.returncode == 3


@pytest.mark.real
def test_the_job_of_the_guide_runs_by_the_commands_of_the_guide(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    need_spark()
    make_topic(moldau_broker, moldau_topic, 3)
    [program] = [each for each in programs("spark.md") if "counted" in each]
    program = program.replace("localhost:9092", moldau_broker.bootstrap_servers)
    program = program.replace("spark-orders", moldau_topic)
    (tmp_path / "count.py").write_text(program)
    commands = re.findall(r"^moldau spark (.*)$", text_of("spark.md"), re.MULTILINE)
    assert [each.split()[0] for each in commands] == ["run", "submit"]
    for command in commands:
        done = run(*shlex.split(command), folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "counted 0" in done.stdout.splitlines()
