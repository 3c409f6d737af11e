"""`moldau streams topology|explain|draw`: an app as text or as a picture, without running it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.output import write_json
from moldau.streams.commands.given_app import load_app


def show_app(arguments: Namespace, context: Context) -> int:
    """Print the text, the picture as SVG, or with --json the plan as data."""
    from moldau.runtime.places import absolute_path
    from moldau.streams.plan.description import description
    from moldau.streams.plan.drawing import draw_svg
    from moldau.streams.plan.text import explain_text, topology_text

    app = load_app(arguments.app, absolute_path("."))
    plan = app.plan()
    if arguments.action == "explain" and arguments.engine == "spark":
        from moldau.cli.commands.cluster_connection import assignments
        from moldau.streams.spark.deployment import deployment_problems, is_deployment
        from moldau.streams.spark.limits import explain_spark, spark_description
        from moldau.streams.worker.settings import EXACTLY_ONCE

        if arguments.json:
            found = spark_description(plan, _counts(arguments.partitions))
            words = arguments.client_settings
            own = [each for each in words if is_deployment(each.partition("=")[0])]
            rest = [each for each in words if each not in own]
            problems = deployment_problems(assignments(own))
            wrong = [{"name": name, "text": text} for name, text in problems.items()]
            write_json(context.out, {**found, "settings": [*wrong, *_problems(rest)]})
            return Exit.DONE
        guarantee = getattr(app, "guarantee", EXACTLY_ONCE)
        text = explain_spark(plan, is_exactly_once=guarantee == EXACTLY_ONCE)
    elif arguments.action == "explain":
        counts = _counts(arguments.partitions)
        if arguments.json:
            found = description(plan, counts)
            write_json(context.out, {**found, "settings": _problems(arguments.client_settings)})
            return Exit.DONE
        text = explain_text(plan, counts)
    else:
        text = topology_text(plan) if arguments.action == "topology" else draw_svg(plan)
    print(text.rstrip("\n"), file=context.out)
    return Exit.DONE


def _problems(words: list[str]) -> list[dict[str, str]]:
    """Return what is wrong with settings that were given as NAME=VALUE."""
    from moldau.cli.commands.cluster_connection import assignments
    from moldau.client.base.given import resolve
    from moldau.client.settings.rows import ADMIN_SETTINGS, CONSUMER_SETTINGS, PRODUCER_SETTINGS
    from moldau.config import BadSettings
    from moldau.streams.running import checked

    found: dict[str, str] = {}

    def collect(check: Callable[[], object]) -> None:
        try:
            check()
        except BadSettings as error:
            found.update({each.name: str(each) for each in error.problems})

    given = {"bootstrap.servers": "localhost:9092", **assignments(words)}
    collect(lambda: checked(given))
    if not found:
        clients = checked(given).clients
        consumer = {"group.id": "app", **clients["consumer"]}
        collect(lambda: resolve(CONSUMER_SETTINGS, consumer, {}))
        collect(lambda: resolve(PRODUCER_SETTINGS, clients["producer"], {}))
        collect(lambda: resolve(ADMIN_SETTINGS, clients["admin"], {}))
    return [{"name": name, "text": text} for name, text in found.items()]


def _counts(words: list[str]) -> dict[str, int]:
    """Return the partition counts of topics that were given as TOPIC=N."""
    found = {}
    for word in words:
        topic, _, count = word.rpartition("=")
        if not topic or not count.isdecimal() or int(count) < 1:
            raise UsageError(f"--partitions takes TOPIC=N, not {word}")
        found[topic] = int(count)
    return found
