"""`moldau streams topology|explain|draw`: an app as text or as a picture, without running it."""

from __future__ import annotations

from argparse import Namespace

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.output import write_json
from moldau.streams.commands.given_app import load_app


def show_app(arguments: Namespace, context: Context) -> int:
    """Print the text, the picture as SVG, or with --json the plan as data."""
    from moldau.runtime.places import absolute_path
    from moldau.streams.plan.description import description
    from moldau.streams.plan.drawing import draw_svg
    from moldau.streams.plan.text import explain_text, topology_text

    plan = load_app(arguments.app, absolute_path(".")).plan()
    if arguments.action == "explain":
        counts = _counts(arguments.partitions)
        if arguments.json:
            write_json(context.out, description(plan, counts))
            return Exit.DONE
        text = explain_text(plan, counts)
    else:
        text = topology_text(plan) if arguments.action == "topology" else draw_svg(plan)
    print(text.rstrip("\n"), file=context.out)
    return Exit.DONE


def _counts(words: list[str]) -> dict[str, int]:
    """Return the partition counts of topics that were given as TOPIC=N."""
    found = {}
    for word in words:
        topic, _, count = word.rpartition("=")
        if not topic or not count.isdecimal() or int(count) < 1:
            raise UsageError(f"--partitions takes TOPIC=N, not {word}")
        found[topic] = int(count)
    return found
