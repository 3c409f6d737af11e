"""What `make test-deep` runs and `.ci/run` does not, beside the hunts: more seeds, kills or
variants of what another test in continuous integration shows. `tests/suites.py` marks it `soak`.

`KEPT` names parametrized tests and the cases that stay: the cheapest that show the behaviour, or
one of each kind where kinds differ. The other cases are soak. `SHOWN_ELSEWHERE` names whole tests,
each with the test that stays and shows the same in less time.

Invariant: of each test in `KEPT` at least one case stays, and no test in `SHOWN_ELSEWHERE` stands
for another one (tests/architecture/test_soak.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.change import day

ROOT: Final = Path(__file__).parent.parent
DAYS: Final = 7


def of_today(*cases: str) -> str:
    """Return one of the cases, another each week: each deep file of continuous integration has its
    day of the week (tests/reach.py)."""
    return cases[day(ROOT) // DAYS % len(cases)]


KEPT: Final[dict[str, frozenset[str]]] = {
    f"tests/{test}": frozenset(cases)
    for test, cases in {
        # More seeds of one simulation. Each is also in `make test`, with seeds that failed once.
        "broker/cluster/test_storm.py::test_a_cluster_survives_the_storms_of_the_day": ["0"],
        "broker/cluster/queues/test_storm.py::test_queues_survive_more_storms": ["0"],
        "broker/cluster/transactional/test_storm.py::test_transactions_survive_more_storms": [
            of_today("20", "30", "40")
        ],
        "broker/cluster/transactional/test_client_storm.py::test_programs_survive_more_storms": [
            "10"
        ],
        "streams/simulation/test_streams_simulation.py"
        "::test_everything_counts_once_in_many_worlds": ["3"],
        "streams/broker/test_random_apps.py::test_apps_on_a_broker_come_to_what_the_model_says": [
            "3"
        ],
        "streams/spark/test_differences.py::test_more_random_apps_come_to_what_the_model_says": [
            "0"
        ],
        "spark/test_streams_differences.py::test_a_random_app_comes_to_what_the_model_says": ["0"],
        # The first parts have all scripts by hand and one of each family.
        "streams/broker/test_kafka_topologies.py::test_every_topology_runs_on_a_broker": [
            *("0", "1", "2")
        ],
        # One strategy of each protocol, on our broker; what differs on Kafka's once.
        "conformance/test_mixed_groups.py"
        "::test_each_shares_with_ours_and_leads_once_and_follows_once": [
            *("quick_moldau-range", "quick_moldau-cooperative-sticky", "quick_moldau-consumer"),
            "quick_kafka-consumer",
        ],
        "conformance/test_mixed_groups.py::test_all_in_one_group_are_restarted_one_by_one": [
            *("range-quick_moldau", "consumer-quick_moldau")
        ],
        "conformance/test_mixed_groups.py::test_static_members_come_again_to_what_they_had": [
            *("range-quick_moldau", "consumer-quick_moldau", "cooperative-sticky-quick_kafka")
        ],
        "conformance/test_mixed_groups.py"
        "::test_a_group_becomes_cooperative_in_two_rounds_of_restarts": ["quick_moldau"],
        "conformance/test_mixed_groups.py"
        "::test_a_group_goes_to_the_new_protocol_and_back_while_it_works": ["quick_moldau"],
        "conformance/test_mixed_groups.py::test_all_outlive_a_broker_that_is_killed": [
            *("cooperative-sticky", "consumer")
        ],
        # What the client or a command does is the same with either protocol or place to begin; each
        # case runs on our broker in `make test`, and one or two on Kafka's here.
        "client/group/test_real_groups.py"
        "::test_members_share_come_and_go_and_nothing_is_left_out": [
            *("apache-kafka-cooperative", "apache-kafka-consumer")
        ],
        "client/group/test_real_groups.py::test_a_static_member_comes_back_to_its_partitions": [
            *("apache-kafka-cooperative", "apache-kafka-consumer")
        ],
        "client/group/test_real_groups.py"
        "::test_who_does_not_poll_loses_its_partitions_and_cannot_commit": [
            "apache-kafka-consumer"
        ],
        "client/group/test_real_groups.py::test_a_pattern_finds_topics_that_come_later": [
            "apache-kafka-consumer"
        ],
        "client/producer/test_transaction_blocks.py"
        "::test_a_partition_that_goes_to_another_member_aborts_the_block": [
            "apache-kafka-consumer"
        ],
        "client/producer/test_killed_copies.py::test_many_kills_change_nothing": ["consumer"],
        "cli/test_consume_gone.py"
        "::test_a_log_that_is_trimmed_under_a_slow_reader_is_read_from_what_is_left": [
            "apache-kafka-beginning"
        ],
        "cli/test_topic_changes.py::test_settings_of_a_topic_that_there_is_not_are_told_at_once": [
            "apache-kafka-words0"
        ],
        # The two files are the same but for the engine, says the test above it.
        "examples/test_shop.py::test_its_pipeline_is_sound": ["spark"],
        "examples/test_queue.py::test_every_message_is_handled_though_a_worker_is_killed": [
            "moldau"
        ],
        # A worker of Java's and ours take turns: with and without a source's own boundaries.
        "connect/worker/test_java_worker.py"
        "::test_exactly_once_sources_go_on_at_the_others_worker": ["True"],
        "connect/worker/test_java_worker.py::test_each_has_the_other_fence_its_older_tasks": [
            "True"
        ],
        # A dead letter is made by one piece of code from what any deserializer refuses.
        "connectors/spark/test_dead_letters.py"
        "::test_bad_values_of_a_registry_are_dead_letters_as_they_came_and_only_once": ["json"],
        # A batch is known by its number to any sink. `test_runner` writes Delta's and files;
        # `test_dead_letters` kills a runner, `test_copy_kills` a driver.
        "connectors/spark/test_kills.py::test_kills_lose_nothing_and_repeat_nothing": ["jdbc"],
        "connectors/spark/test_connect_batches.py"
        "::test_large_batches_go_through_the_spool_of_a_server_and_on_after_a_kill": ["jdbc"],
        "connectors/spark/checkpoint/test_generations.py"
        "::test_a_query_with_state_does_not_begin_anew_among_its_files": ["stateful2"],
        # The disk's model finds most of these: one of them, and those that have their own test.
        "runtime/test_disk_mutants.py::test_a_wrong_disk_is_found": [
            *("a_sync_makes_nothing_durable", "a_second_sync_makes_a_failed_one_good"),
            *("names_of_one_directory_survive_together", "sectors_are_never_torn"),
            "sectors_arrive_in_order",
        ],
    }.items()
}
"""The deep cases that `.ci/run` takes, by test. `make test` takes all that are not deep."""

ON_KAFKA: Final[dict[str, set[str]]] = {
    # Scripts with answers of a fixed version of Kafka.
    "tests/broker/coordinator/classic/test_peer.py": set(),
    "tests/cli/test_consume_gone.py": {
        "test_a_log_that_is_trimmed_under_a_slow_reader_is_read_from_what_is_left"
    },
    "tests/cli/test_topic_changes.py": {
        "test_what_was_altered_before_it_failed_is_told",
        "test_settings_of_a_topic_that_there_is_not_are_told_at_once",
    },
    "tests/cli/test_consume_group.py": {
        "test_it_goes_on_where_the_group_has_stopped",
        "test_members_share_and_hand_over",
    },
    "tests/cli/test_group_commands.py": {
        "test_a_group_from_its_first_member_to_its_end",
        "test_offsets_move_to_another_group_and_to_another_topic",
        "test_kafkas_tool_sees_the_same_groups",
        "test_kafkas_tool_plans_the_same_resets",
    },
}
"""Files whose tests run each command on our broker in `make test`, with those that `.ci/run` also
runs on Apache Kafka. The others there are soak: what they ask of a broker is what these ask."""

SHOWN_ELSEWHERE: Final = {
    f"tests/{test}": f"tests/{other}"
    for test, other in {
        # Kafka of a fixed version still answers as it did: nothing of ours can change that. Ours is
        # compared with what is kept of it in `make test`.
        # Kubernetes takes a quarter of an hour to build. Its schemas, and what pods start, stay.
        "testing/test_real_kubernetes.py::test_the_api_server_knows_every_field": "testing"
        "/test_secure_chart.py::test_kubernetes_knows_every_field",
        "testing/test_real_kubernetes.py"
        "::test_a_secure_chart_is_installed_scaled_and_taken_away_one_by_one": "testing"
        "/test_secure_chart.py::test_what_a_secure_chart_starts_serves_the_users_of_its_values",
        "testing/test_real_kubernetes.py::test_a_release_of_the_last_version_is_upgraded": "testing"
        "/test_secure_chart.py::test_the_parts_of_a_secure_chart_fit_together",
        "broker/coordinator/classic/test_restart.py::test_kafka_goes_on_so": "broker/coordinator"
        "/classic/test_restart.py::test_our_broker_goes_on",
        "broker/coordinator/consumer/test_peer.py::test_kafka_answers_so": "broker/coordinator"
        "/consumer/test_served.py::test_our_broker_answers_so",
        "broker/settings/test_rows.py::test_the_kept_facts_are_those_of_kafka": "broker/settings"
        "/test_rows.py::test_rows_have_the_facts_of_kafka",
        "broker/settings/test_verdicts.py::test_the_kept_answers_are_those_of_kafka": "broker"
        "/settings/test_verdicts.py::test_single_values_are_judged_as_kafka_judges_them",
        "streams/kafka/test_kafka_answers.py::test_kafka_still_answers_as_it_did": "streams/kafka"
        "/test_answers.py::test_a_script_from_a_seed_gives_what_kafka_does",
        "connect/kafka/test_kafka_answers.py::test_kafka_still_answers_as_it_did": "connect/kafka"
        "/test_answers.py::test_ours_answers_as_kafka_does",
        # A runner on a server that it shares is killed there too.
        "connectors/spark/test_worker.py::test_a_task_runs_on_a_spark_connect_server": "connectors"
        "/spark/test_deployments.py"
        "::test_a_shared_server_and_a_remote_one_go_on_with_the_checkpoint",
        # The extras of others have the same, and more.
        "e2e/test_extras.py::test_an_extra_alone_is_enough_for_its_first_example[spark]": "e2e"
        "/test_extras.py::test_an_extra_alone_is_enough_for_its_first_example[spark-connect]",
        "e2e/test_extras.py::test_an_extra_alone_is_enough_for_its_first_example[delta]": "e2e"
        "/test_extras.py::test_an_extra_alone_is_enough_for_its_first_example[iceberg]",
        "connectors/spark/test_worker.py"
        "::test_a_value_that_cannot_be_read_fails_the_task_in_one_line": "connectors/spark"
        "/test_runner.py::test_a_bad_value_ends_the_connector_in_one_line",
        "connectors/spark/test_deployments.py"
        "::test_a_query_on_the_shared_server_ends_when_the_deploy_is_changed_to_local": "connectors"
        "/spark/test_deployments.py"
        "::test_a_shared_server_and_a_remote_one_go_on_with_the_checkpoint",
    }.items()
}
"""Whole tests, or cases of them, each with one that stays."""


def is_soak(test: str, case: str | None) -> bool:
    """Whether `.ci/run` leaves the case of the test out."""
    if test in SHOWN_ELSEWHERE or f"{test}[{case}]" in SHOWN_ELSEWHERE:
        return True
    if test in KEPT:
        return case not in KEPT[test]
    file, _, name = test.partition("::")
    is_on_kafka = case is not None and re.match("(apache-)?kafka(-|$)", case) is not None
    return is_on_kafka and file in ON_KAFKA and name not in ON_KAFKA[file]


def without_a_case(cases: Iterable[tuple[str, str | None]]) -> list[str]:
    """Return tests of `KEPT` of which several cases are here and none that stays."""
    found: dict[str, set[str | None]] = {}
    for test, case in cases:
        if test in KEPT:
            found.setdefault(test, set()).add(case)
    return sorted(
        test for test, those in found.items() if len(those) > 1 and not those & KEPT[test]
    )
