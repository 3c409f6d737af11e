"""`moldau streams topology`, `explain` and `draw`: an app as text or as a picture."""

from __future__ import annotations

from argparse import Namespace

from moldau.cli.command import Context, Exit
from moldau.streams.commands.given_app import load_app


def show_app(arguments: Namespace, context: Context) -> int:
    """Writes what was asked for."""
    from moldau.runtime.places import absolute_path
    from moldau.runtime.real_files import RealFiles
    from moldau.streams.plan.draw import draw
    from moldau.streams.plan.explain import explain, topology

    plan = load_app(arguments.app, absolute_path(".")).plan()
    show = {"topology": topology, "explain": explain, "draw": draw}[arguments.action]
    text = show(plan)
    if arguments.action == "draw" and arguments.out is not None:
        RealFiles().write_text_atomic(absolute_path(arguments.out), text)
    else:
        context.out.write(text if text.endswith("\n") else f"{text}\n")
    return Exit.DONE
