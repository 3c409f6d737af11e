"""`moldau streams topology|explain|draw`: an app as text or as a picture, without running it."""

from __future__ import annotations

from argparse import Namespace

from moldau.cli.command import Context, Exit
from moldau.streams.commands.given_app import load_app


def show_app(arguments: Namespace, context: Context) -> int:
    """Prints the text, or the picture as SVG."""
    from moldau.runtime.places import absolute_path
    from moldau.streams.plan.drawing import draw_svg
    from moldau.streams.plan.text import explain_text, topology_text

    show = {"topology": topology_text, "explain": explain_text, "draw": draw_svg}
    plan = load_app(arguments.app, absolute_path(".")).plan()
    print(show[arguments.action](plan).rstrip("\n"), file=context.out)
    return Exit.DONE
