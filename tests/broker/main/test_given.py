"""Settings from files, the environment and the command line, and in which order they count."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree

import pytest

from moldau.broker.main.given import settings_given
from moldau.broker.settings import notices
from moldau.broker.settings.creation import num_partitions
from moldau.broker.settings.log import cordoned_log_dirs, log_dirs, log_retention_hours
from moldau.broker.settings.network import listeners
from moldau.broker.settings.node import broker_rack, node_id
from moldau.cli.command import Exit, UsageError
from moldau.config import BadSettings, Settings
from moldau.errors import ConfigError
from moldau.runtime.places import default_data_directory
from moldau.runtime.real_files import RealFiles
from tests.broker.main.command_line import command

FILE = """
process.roles=broker,controller
node.id=7
listeners=PLAINTEXT://:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=localhost:9093
log.dirs=/from/file
num.partitions=3
"""


def given(
    config: Path | None = None,
    *assignments: str,
    data: str | None = None,
    listen: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """As the command would."""
    arguments = Namespace(
        config=None if config is None else str(config), assignments=list(assignments), data=data
    )
    return settings_given(arguments, environment or {"HOME": "/somebody"}, RealFiles(), listen)


def file(tmp_path: Path, more: str = "") -> Path:
    path = tmp_path / "server.properties"
    path.write_text(FILE + more)
    return path


@pytest.mark.parametrize(
    ("environment", "directory"),
    [
        ({"HOME": "/somebody"}, "/somebody/.local/share/moldau/broker"),
        ({"HOME": "/somebody", "XDG_DATA_HOME": "/data"}, "/data/moldau/broker"),
        ({"HOME": "/somebody", "XDG_DATA_HOME": "data"}, "/somebody/.local/share/moldau/broker"),
        ({}, "moldau-data"),
    ],
)
def test_where_a_node_keeps_its_data(environment: dict[str, str], directory: str) -> None:
    assert default_data_directory(environment) == directory


def test_without_a_file_a_node_is_complete() -> None:
    settings = given()

    assert settings[log_dirs] == ("/somebody/.local/share/moldau/broker",)
    assert settings[listeners][0] == "PLAINTEXT://localhost:9092"


def test_what_is_nearer_to_the_user_wins(tmp_path: Path) -> None:
    at = file(tmp_path)
    variable = {"MOLDAU_NUM_PARTITIONS": "4"}

    assert given(at)[num_partitions] == 3
    assert given(at, environment=variable)[num_partitions] == 4
    assert given(at, "num.partitions=5", environment=variable)[num_partitions] == 5
    assert given(at, data="/elsewhere")[log_dirs] == ("/elsewhere",)
    assert given(at)[node_id] == 7


def test_directories_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert given(None, "log.dirs=a, b/../c,/d")[log_dirs] == (
        f"{tmp_path}/a",
        f"{tmp_path}/c",
        "/d",
    )
    assert given(data="x")[log_dirs] == (f"{tmp_path}/x",)


def test_listen_moves_the_clients_listener() -> None:
    assert given(listen=":19092")[listeners][0] == "PLAINTEXT://:19092"
    assert given(listen="9093")[listeners] == (
        "PLAINTEXT://localhost:9093",
        "CONTROLLER://localhost:9092",
    )


def test_a_file_and_listen_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        given(file(tmp_path), listen="1")


def test_what_two_options_say_is_refused() -> None:
    for names in ("log.dirs", " log.dir "):
        with pytest.raises(UsageError, match=r"--data and --set log\.dirs? say the same"):
            given(None, f"{names}=/b", data="/a")
    with pytest.raises(UsageError, match="--listen and --set listeners say the same"):
        given(None, "listeners=PLAINTEXT://:1", listen="2")
    assert given(None, "log.dirs=/b")[log_dirs] == ("/b",)


def test_options_win_over_the_environment_without_a_file_too() -> None:
    environment = {
        "HOME": "/somebody",
        "MOLDAU_LOG_DIRS": "/b",
        "MOLDAU_LISTENERS": "PLAINTEXT://:1,CONTROLLER://:2",
    }
    assert given(environment=environment)[log_dirs] == ("/b",)
    assert given(environment=environment)[listeners][0] == "PLAINTEXT://:1"
    assert given(data="/a", environment=environment)[log_dirs] == ("/a",)
    assert given(listen="19092", environment=environment)[listeners] == (
        "PLAINTEXT://localhost:19092",
        "CONTROLLER://localhost:9093",
    )


def test_log_dir_counts_unless_somebody_gave_log_dirs(tmp_path: Path) -> None:
    """The directory that a node has by itself is no word of anybody's."""
    variable = {"HOME": "/somebody", "MOLDAU_LOG_DIR": "/v"}
    only_one = file(tmp_path, "log.dir=/f\n").read_text().replace("log.dirs=/from/file\n", "")
    at = tmp_path / "one.properties"
    at.write_text(only_one)

    assert given(None, "log.dir=/x")[log_dirs] == ("/x",)
    assert given(environment=variable)[log_dirs] == ("/v",)
    assert given(None, "log.dir=/x", environment=variable)[log_dirs] == ("/x",)
    assert given(at)[log_dirs] == ("/f",)
    assert given(at, "log.dir=/x")[log_dirs] == ("/x",)
    # Somebody gave log.dirs.
    assert given(data="/a", environment=variable)[log_dirs] == ("/a",)
    assert given(None, "log.dirs=/y", environment=variable)[log_dirs] == ("/y",)
    assert given(None, "log.dir=/x", "log.dirs=/y")[log_dirs] == ("/y",)
    assert given(file(tmp_path), "log.dir=/x")[log_dirs] == ("/from/file",)


def test_an_environment_may_be_shared_with_clients() -> None:
    environment = {
        "HOME": "/somebody",
        "MOLDAU_BOOTSTRAP": "there:9092",
        "MOLDAU_BOOTSTRAP_SERVERS": "there:9092",
        "MOLDAU_ACKS": "1",
        "MOLDAU_NUM_PARTITIONS": "4",
    }
    assert given(environment=environment)[num_partitions] == 4
    with pytest.raises(BadSettings, match="MOLDAU_ACKSS"):
        given(environment={**environment, "MOLDAU_ACKSS": "1"})
    # What both have is the broker's here.
    with pytest.raises(BadSettings, match="MOLDAU_COMPRESSION_TYPE"):
        given(environment={**environment, "MOLDAU_COMPRESSION_TYPE": "best"})


def test_references_are_looked_up_where_the_provider_may_look(tmp_path: Path) -> None:
    secret = tmp_path / "secret.properties"
    secret.write_text("partitions=6\n")
    provider = (
        "config.providers=file,env\n"
        "config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
        f"config.providers.file.param.allowed.paths={tmp_path}\n"
        "config.providers.env.class=EnvVarConfigProvider\n"
        "config.providers.env.param.allowlist.pattern=RACK\n"
    )
    reference = f"num.partitions=${{file:{secret}:partitions}}\n"
    at = file(tmp_path, provider + reference)

    assert given(at)[num_partitions] == 6
    with pytest.raises(BadSettings, match="allowlist"):
        given(file(tmp_path, f"{provider}broker.rack=${{env:HOME}}\n"))
    with pytest.raises(BadSettings, match="no config provider is called"):
        given(file(tmp_path, reference))
    with pytest.raises(ConfigError, match="no such config provider"):
        given(file(tmp_path, "config.providers=x\nconfig.providers.x.class=org.other.Vault\n"))


def test_a_provider_without_an_allowlist_gives_everything(tmp_path: Path) -> None:
    secret = tmp_path / "secret.properties"
    secret.write_text("partitions=6\n")
    (tmp_path / "rack").write_text("r1")
    package = "org.apache.kafka.common.config.provider"
    lines = (
        "config.providers=file,env,dir\n"
        f"config.providers.file.class={package}.FileConfigProvider\n"
        f"config.providers.env.class={package}.EnvVarConfigProvider\n"
        f"config.providers.dir.class={package}.DirectoryConfigProvider\n"
        f"num.partitions=${{file:{secret}:partitions}}\n"
        f"broker.rack=${{dir:{tmp_path}:rack}}\n"
        "log.retention.hours=${env:HRS}\n"
    )
    settings = given(file(tmp_path, lines), environment={"HOME": "/h", "HRS": "7"})

    assert settings[num_partitions] == 6
    assert settings[broker_rack] == "r1"
    assert settings[log_retention_hours] == 7
    assert not [each for each in notices(settings) if "config.providers" in each]
    closed = "config.providers.env.param.allowlist.pattern=\n"
    with pytest.raises(BadSettings, match="allowlist"):
        given(file(tmp_path, lines + closed), environment={"HRS": "7"})


@pytest.mark.parametrize(
    ("name", "parameter"),
    [("EnvVarConfigProvider", "allowlist.pattern=("), ("FileConfigProvider", "allowed.paths=a/b")],
)
def test_an_allowlist_that_says_nothing_is_told(tmp_path: Path, name: str, parameter: str) -> None:
    lines = (
        f"config.providers=x\nconfig.providers.x.class={name}\nconfig.providers.x.param.{parameter}"
    )
    with pytest.raises(ConfigError, match=r"no pattern|must be absolute"):
        given(file(tmp_path, lines))


def test_cordoned_directories_become_absolute_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    some = given(None, "log.dirs=a,b", "cordoned.log.dirs=b")
    assert some[cordoned_log_dirs] == (f"{tmp_path}/b",)
    assert given(None, "log.dirs=a,b", "cordoned.log.dirs=*")[cordoned_log_dirs] == ("*",)


def test_storage_is_formatted_once_and_told(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "d"))
    code, _, _ = command("storage", "info", *data, home=tmp_path)
    assert code == Exit.FAILED

    code, out, _ = command(
        "storage", "format", *data, "--feature", "group.version=0", home=tmp_path
    )
    assert (code, out[:10]) == (Exit.DONE, "formatted ")
    code, out, err = command("storage", "format", *data, home=tmp_path)
    assert code == Exit.MISUSED
    assert "is formatted already" in err
    assert command("storage", "format", *data, "-g", home=tmp_path)[0] == Exit.DONE
    code, out, _ = command("storage", "info", *data, home=tmp_path)
    assert code == Exit.DONE
    assert str(tmp_path / "d") in out


def test_metadata_formatted_beside_used_directories_are_told_of(tmp_path: Path) -> None:
    """Kafka's own does it and is silent: what was in them is lost, or their disk is not mounted."""
    data, metadata = tmp_path / "d", tmp_path / "m"
    place = ("--data", str(data), "--set", f"metadata.log.dir={metadata}")
    for lost in (data, metadata):  # first both are new, then one for logs is
        code, _, err = command("storage", "format", "-g", *place, home=tmp_path)
        assert (code, err) == (Exit.DONE, "")
        rmtree(lost)

    code, out, err = command("storage", "format", "-g", *place, home=tmp_path)
    assert code == Exit.DONE
    assert out.startswith(f"formatted {metadata} for node 1 of cluster ")
    assert err.startswith(f"moldau: warning: {metadata} is the metadata directory")
    assert f"beside {data}," in err
    assert "as strays" in err

    rmtree(metadata)  # a node that joins a quorum gets them from there
    code, out, err = command("storage", "format", "-g", "-N", *place, home=tmp_path)
    assert (code, err) == (Exit.DONE, "")
    assert out.startswith("formatted ")


def test_a_cluster_may_have_any_name_and_a_disk_that_is_added_gets_it(tmp_path: Path) -> None:
    """As Kafka's own tool has it: its directories can have such names."""
    first, second = tmp_path / "first", tmp_path / "second"
    place = ("--data", str(first))
    assert command("storage", "format", "-t", "my cluster", *place, home=tmp_path)[0] == Exit.DONE
    both = ("--set", f"log.dirs={first},{second}")
    code, out, err = command("storage", "format", "-g", *both, home=tmp_path)
    assert (code, err) == (Exit.DONE, "")
    assert out == f"formatted {second} for node 1 of cluster my cluster\n"


@pytest.mark.parametrize(
    "arguments",
    [
        (
            *("-f", "kraft.version=0", "--set", "controller.quorum.voters=1@localhost:9093"),
            *("--set", "controller.quorum.bootstrap.servers="),
        ),
        ("-f", "kraft.version=1"),
    ],
)
def test_kraft_version_may_be_said_as_the_voters_have_it(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    place = ("--data", str(tmp_path / "d"))
    code, out, err = command("storage", "format", *place, *arguments, home=tmp_path)
    assert (code, err) == (Exit.DONE, "")
    assert "formatted" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-t", ""), "'' is no cluster id; `moldau storage random-uuid` makes one"),
        (("-t", "two\nlines"), "is no cluster id"),
        (("-t", "c" * 32_768), "of 32768 characters is too long: it is text of at most 32767 by"),
        (("-t", "\u00fc" * 16_384), "of 16384 characters is too long"),
        (("-r", "2.8"), "no release 2.8"),
        (("-f", "group.version"), "give NAME=LEVEL"),
        (("-f", "kraft.version=0"), "name the voters in controller.quorum.voters"),
        (("-f", "kraft.version=2"), "kraft.version is 0 or 1"),
        (
            (
                *("-f", "kraft.version=1", "--set", "controller.quorum.voters=1@localhost:9093"),
                *("--set", "controller.quorum.bootstrap.servers="),
            ),
            "controller.quorum.voters has kraft.version=0",
        ),
        (("-f", "group.version=9"), "cannot start at that level"),
        (("-S", "SCRAM-SHA-256"), "give SCRAM-SHA-256=[name=USER,password=PASSWORD]"),
        (("-S", "PLAIN=[name=u,password=p]"), "there are SCRAM-SHA-256, SCRAM-SHA-512"),
        (("-S", "SCRAM-SHA-256=[password=p]"), "no name of a user"),
        (("-S", "SCRAM-SHA-256=[name=u]"), "'u' needs a password"),
        (("-S", "SCRAM-SHA-256=[name=u,password=p,iterations=9]"), "give 4096 to 16384"),
        (("-S", "SCRAM-SHA-256=[name=u,password=p,salt=?]"), "salt of 'u' is not base64"),
        (("-S", "SCRAM-SHA-256=[name=u,password=a,b]"), "a password with a comma"),
        (
            ("-S", "SCRAM-SHA-256=[name=u,password=p]", "-r", "3.4"),
            "SCRAM users need a newer metadata.version",
        ),
        (("-s", "-N"), "exclude each other"),
        (
            (
                "-s",
                "--set",
                "controller.quorum.voters=1@localhost:9093",
                "--set",
                "controller.quorum.bootstrap.servers=",
            ),
            "controller.quorum.voters names the voters",
        ),
    ],
)
def test_storage_refuses_what_makes_no_sense(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = command(
        "storage", "format", "--data", str(tmp_path / "d"), *arguments, home=tmp_path
    )

    assert code == Exit.MISUSED
    assert said in err
    assert out == ""
    assert not (tmp_path / "d").exists()


def test_a_release_and_a_level_of_it_exclude_each_other(tmp_path: Path) -> None:
    both = ("-r", "4.0", "-f", "metadata.version=19")
    code, _, err = command("storage", "format", "--data", str(tmp_path / "d"), *both, home=tmp_path)
    assert code == Exit.MISUSED
    assert "metadata.version" in err
