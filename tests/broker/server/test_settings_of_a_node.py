"""From settings to what the parts are told: options of listeners, directories, formatting."""

from __future__ import annotations

import pytest

from moldau.broker.controller.storage import format_storage
from moldau.broker.network import NO_LIMIT
from moldau.broker.server import Broker
from moldau.broker.server.controller_config import controller_config_of
from moldau.broker.server.options import limited_hosts, listener_options, network_options
from moldau.broker.server.security import client_auth
from moldau.broker.server.standalone import parse_listen, standalone_layer
from moldau.broker.server.storage import cluster_of, format_if_empty, places_of, plan_of
from moldau.broker.settings import broker_settings, notices, read_listeners, unbuilt
from moldau.config import Settings, overrides
from moldau.errors import ConfigError
from moldau.ids import format_uuid
from moldau.runtime import Runtime
from moldau.runtime.files import Files
from moldau.runtime.process_figures import memory_limit
from tests.runtime.arena import play


def settings(**given: str) -> Settings:
    """Of a node by itself, with other ones over them."""
    named = {name.replace("_", "."): value for name, value in given.items()}
    return broker_settings(standalone_layer("/data"), overrides(dict(named)))


def test_a_node_by_itself_needs_nothing_that_is_unbuilt_or_without_meaning() -> None:
    assert not unbuilt(settings())
    assert not notices(settings())


def test_limits_of_the_node() -> None:
    given = settings(
        max_connections="7",
        max_connections_per_ip="3",
        max_connections_per_ip_overrides="here:1,10.0.0.1:2",
        max_connection_creation_rate="11",
        connections_max_idle_ms="5000",
        queued_max_request_bytes="200000000",
    )
    options = network_options(given, {"127.0.0.1": 1, "10.0.0.1": 2})

    assert limited_hosts(given) == {"here": 1, "10.0.0.1": 2}
    assert options.connections_max == 7
    assert options.connections_max_per_address == 3
    assert options.connections_max_by_address == {"127.0.0.1": 1, "10.0.0.1": 2}
    assert options.connections_per_second == 11
    assert options.idle_ms_max == 5000
    assert options.queued_request_bytes_max == 200_000_000
    none = settings(queued_max_request_bytes="-1")
    assert network_options(none, {}).queued_request_bytes_max == NO_LIMIT
    memory = memory_limit()
    assert memory is not None
    assert network_options(settings(), {}).queued_request_bytes_max == memory // 4


def test_what_was_said_of_one_listener_holds_for_it_alone() -> None:
    given = broker_settings(
        standalone_layer("/data"),
        overrides(
            {
                "listeners": "IN://a:1,OUT://:2,CONTROLLER://c:3",
                "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "advertised.listeners": "IN://a:1,OUT://b:2",
                "inter.broker.listener.name": "IN",
                "listener.name.out.max.connections": "5",
                "max.connections": "9",
                "socket.listen.backlog.size": "33",
                "listener.name.in.socket.send.buffer.bytes": "50000",
                "listener.name.in.socket.receive.buffer.bytes": "-1",
            }
        ),
    )
    listeners = read_listeners(given)
    inside, outside = (listener_options(given, each, listeners) for each in listeners.of_broker)

    assert (inside.name, inside.host, inside.port) == ("IN", "a", 1)
    assert (outside.name, outside.host, outside.port) == ("OUT", None, 2)
    assert (inside.connections_max, outside.connections_max) == (NO_LIMIT, 5)
    assert (inside.is_protected, outside.is_protected) == (True, False)
    assert (inside.backlog, outside.backlog) == (33, 33)
    assert (inside.send_buffer_bytes, outside.send_buffer_bytes) == (50_000, 1 << 18)
    assert (inside.receive_buffer_bytes, outside.receive_buffer_bytes) == (None, None)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("19092", ("localhost", 19092)),
        (":19092", ("", 19092)),
        ("0.0.0.0:1", ("", 1)),
        ("[::]:1", ("", 1)),
        ("[::1]:2", ("::1", 2)),
        ("host:0", ("host", 0)),
    ],
)
def test_where_to_listen(text: str, place: tuple[str, int]) -> None:
    assert parse_listen(text) == place
    assert (
        read_listeners(broker_settings(standalone_layer("/data", "127.0.0.1", place[1])))
        .of_broker[0]
        .port
        == place[1]
    )


@pytest.mark.parametrize("text", ["", "here", "here:", "1:70000", "-1", "\u0663"])
def test_where_not_to_listen(text: str) -> None:
    with pytest.raises(ConfigError, match="give a port"):
        parse_listen(text)


def test_the_metadata_log_may_have_a_directory_of_its_own() -> None:
    apart = places_of(settings(log_dirs="/a,/b", metadata_log_dir="/m"))
    together = places_of(settings(log_dirs="/a,/b"))

    assert apart.all == ("/a", "/b", "/m")
    assert (together.metadata, together.all) == ("/a", ("/a", "/b"))


def test_the_config_takes_the_fixed_voters_and_sizes() -> None:
    given = settings(
        controller_quorum_voters="1@localhost:9093",
        controller_quorum_bootstrap_servers="",
        metadata_log_max_record_bytes_between_snapshots="1000",
    )
    controller_config = controller_config_of(given, "cluster", "/data")

    assert controller_config.membership.static_voters == (1,)
    assert controller_config.snapshot_after_bytes == 1000
    assert controller_config.log_config.retention_ms == -1
    assert controller_config.rules.cluster_id == "cluster"


def test_a_plan_names_the_first_voter_where_the_settings_do_not() -> None:
    cluster = format_uuid(b"c" * 16)
    alone = plan_of(settings(), cluster, is_standalone=True, host_name="here")
    fixed = plan_of(settings(), cluster, is_standalone=False, host_name="here")

    assert alone.controller_endpoints == (("CONTROLLER", "localhost", 9093),)
    assert fixed.controller_endpoints is None


def test_formatting_that_was_cut_short_is_done_again() -> None:
    async def scenario(runtime: Runtime) -> None:
        files, given = runtime.files, settings()

        def format_now() -> bool:
            return format_if_empty(files, given, runtime.random, 0, "here")

        with pytest.raises(ConfigError, match="not formatted"):
            cluster_of(files, given)
        assert format_now()
        cluster = cluster_of(files, given)
        assert not format_now()
        assert cluster_of(files, given) == cluster

        files.remove("/data/meta.properties")
        assert format_now(), "what is left says nothing of a cluster"
        assert cluster_of(files, given) != cluster

        other = settings(node_id="2", controller_quorum_bootstrap_servers="localhost:9093")
        with pytest.raises(ConfigError, match="another node"):
            cluster_of(files, other)

    play("simulated", scenario)


@pytest.mark.parametrize("paths", ["/a", "/b,/a"])
def test_a_node_with_a_damaged_directory_is_not_told_to_format_it(paths: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        files, given = runtime.files, settings(log_dirs=paths)
        assert format_if_empty(files, given, runtime.random, 0, "here")
        files.write_text_atomic("/a/meta.properties", "")
        with pytest.raises(ConfigError, match=r"is damaged.*write its lines anew") as refused:
            await Broker.start(runtime, given)
        assert refused.value.context["directory"] == "/a"
        assert refused.value.context["missing"] == "cluster.id, node.id"

    play("simulated", scenario)


def test_formatting_that_was_cut_short_between_two_directories_is_done_again() -> None:
    async def scenario(runtime: Runtime) -> None:
        files = runtime.files
        assert format_if_empty(files, settings(log_dirs="/a"), runtime.random, 0, "here")
        both = settings(log_dirs="/a,/b")
        cluster = cluster_of(files, both)

        assert not format_if_empty(files, both, runtime.random, 0, "here")
        assert cluster_of(files, settings(log_dirs="/b")) == cluster

    play("simulated", scenario)


@pytest.mark.parametrize(
    "traces",
    [
        "/a/orders-0/00000000000000000000.log",
        "/a/.kafka_cleanshutdown",
        "/a/__cluster_metadata-0/00000000000000000000.log",
        "/a/__cluster_metadata-0/quorum-state",
    ],
)
def test_an_empty_directory_beside_one_in_use_is_no_new_one(traces: str) -> None:
    """Its disk may not be mounted; a person says which it is."""

    async def scenario(runtime: Runtime) -> None:
        files, random = runtime.files, runtime.random
        assert format_if_empty(files, settings(log_dirs="/a"), random, 0, "here")
        leave(files, traces)
        two = settings(log_dirs="/a,/b")
        with pytest.raises(ConfigError, match="is its disk mounted") as refused:
            format_if_empty(files, two, random, 0, "here")
        assert refused.value.context == {"directory": "/b", "in_use": "/a"}
        assert "storage format --ignore-formatted" in refused.value.reason
        assert not files.exists("/b/meta.properties")

        # What the message says does it.
        plan = plan_of(two, cluster_of(files, two), is_standalone=True, host_name="here")
        assert format_storage(files, plan, random, 0, ignore_formatted=True) == ["/b"]
        assert not format_if_empty(files, two, random, 0, "here")

    play("simulated", scenario)


def test_a_missing_directory_of_the_metadata_is_not_to_be_formatted_at_all() -> None:
    async def scenario(runtime: Runtime) -> None:
        files, random = runtime.files, runtime.random
        both = settings(log_dirs="/a,/b")
        assert format_if_empty(files, both, random, 0, "here")
        leave(files, "/b/orders-0/00000000000000000000.log")
        files.remove_tree("/a")
        with pytest.raises(ConfigError, match="is its disk mounted") as refused:
            format_if_empty(files, both, random, 0, "here")
        assert refused.value.context == {"directory": "/a", "in_use": "/b"}
        assert "storage format" not in refused.value.reason

    play("simulated", scenario)


def test_metadata_without_a_word_whose_they_are_are_not_formatted_over() -> None:
    async def scenario(runtime: Runtime) -> None:
        files = runtime.files
        leave(files, "/data/__cluster_metadata-0/00000000000000000000.log")
        with pytest.raises(ConfigError, match="holds other files"):
            format_if_empty(files, settings(), runtime.random, 0, "here")

    play("simulated", scenario)


def leave(files: Files, path: str) -> None:
    """As a broker did that was there before."""
    files.make_dirs(path.rpartition("/")[0])
    files.write_text_atomic(path, "x")


@pytest.mark.parametrize(
    ("protocol", "prefix", "expected"),
    [
        ("SSL", "", "required"),
        ("SASL_SSL", "", "none"),
        ("SASL_SSL", "listener.name.out.", "required"),
    ],
)
def test_certificates_are_asked_for_at_a_login_by_the_listeners_own_setting(
    protocol: str, prefix: str, expected: str
) -> None:
    named = {
        "listeners": "OUT://127.0.0.1:0,IN://127.0.0.1:0,CONTROLLER://localhost:9093",
        "listener.security.protocol.map": f"OUT:{protocol},IN:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "IN",
        f"{prefix}ssl.client.auth": "required",
    }
    given = broker_settings(standalone_layer("/data"), overrides(dict(named)))
    listener = next(each for each in read_listeners(given).bound if each.name == "OUT")
    assert client_auth(given, listener) == expected
