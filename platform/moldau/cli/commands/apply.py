"""`moldau apply`: make a cluster like the documents. It shows a plan first, and asks.

    moldau apply -f shop.yaml --dry-run
    moldau apply -f cluster/ --yes

Steps are done in an order that works: users, quotas, rules, topics, schemas, connectors; what
`--prune` deletes comes last, in the reverse order. The first step that fails ends the command.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import (
    ClosableClient,
    add_connection_arguments,
    opened_admin,
    opened_registry,
    profile_beside,
)
from moldau.cli.commands.registry_place import DEFAULT, VARIABLE, registry_place, registry_settings
from moldau.cli.connect_rest import DEFAULT_URL, open_rest
from moldau.cli.connect_rest import VARIABLE as CONNECT_VARIABLE
from moldau.cli.output import write_json, write_lines
from moldau.cli.summaries import SUMMARIES
from moldau.deferred import dataclass
from moldau.errors import MoldauError

if TYPE_CHECKING:
    from moldau.cli.commands.cluster_connection import OpenClient
    from moldau.client.admin.admin import Admin
    from moldau.client.serdes.registry.client import SchemaRegistry
    from moldau.operations.connectors import Rest
    from moldau.operations.documents import Documents
    from moldau.operations.plan import PlanStep

T = TypeVar("T", bound=ClosableClient)
C = TypeVar("C", contravariant=True)

_CONNECT: Final = "--connect"

_KIND_WIDTH: Final = 9
_ENDINGS: Final = (".yaml", ".yml", ".json")
_ALL: Final = "all"
_SECTION_OF: Final = {
    "user": "users",
    "quota": "quotas",
    "acl": "acls",
    "topic": "topics",
    "schema": "schemas",
    "connector": "connectors",
}
"""The section of each kind of step, in the order in which steps are done."""


class Part(Protocol):
    """Plans and does the steps of one kind."""

    @property
    def kind(self) -> str: ...

    def plan(self) -> list[PlanStep]: ...

    def do(self, step: PlanStep) -> None: ...


class Noun(Protocol[C]):
    """The same for what a cluster or a registry has, by its client."""

    @property
    def kind(self) -> str: ...

    async def plan(self, client: C, /) -> list[PlanStep]: ...

    async def do(self, client: C, step: PlanStep, /) -> None: ...


@dataclass(frozen=True, slots=True)
class OpenedPart(Generic[T]):
    """Plans and does the steps of a noun over an open connection."""

    opened: OpenClient[T]
    noun: Noun[T]

    @property
    def kind(self) -> str:
        return self.noun.kind

    def plan(self) -> list[PlanStep]:
        return self.opened.run(self.noun.plan)

    def do(self, step: PlanStep) -> None:
        self.opened.run(lambda client: self.noun.do(client, step))


class ApplyCommand:
    """Plans the steps from a cluster to the documents, and does them."""

    summary = SUMMARIES["apply"]

    def configure(self, parser: ArgumentParser, /) -> None:
        add_connection_arguments(parser, json_help="write the plan as JSON")
        parser.add_argument(
            "-f",
            "--file",
            action="append",
            required=True,
            metavar="FILE|DIR",
            help=f"a document, or all of a directory ({', '.join(_ENDINGS)}); may be repeated",
        )
        parser.add_argument("--yes", action="store_true", help="do it without a question")
        parser.add_argument("--dry-run", action="store_true", help="show the plan, change nothing")
        parser.add_argument(
            "--prune",
            nargs="?",
            const=_ALL,
            metavar="SECTION,...",
            help="delete what the documents' sections do not have, in these sections or in all",
        )
        parser.add_argument(
            "--set-passwords",
            action="store_true",
            help="set the passwords of users that exist too: a cluster cannot compare them",
        )
        add_places(parser)

    def run(self, arguments: Namespace, context: Context, /) -> int:
        documents = _read(arguments, context)
        pruned = _pruned(arguments, documents)
        with ExitStack() as stack:
            parts = list(_parts(arguments, context, documents, pruned, stack))
            steps = [_placed(each, documents) for part in parts for each in _planned(part)]
            _write_plan(arguments, context, steps)
            return _finish(arguments, context, parts, steps)


def _read(arguments: Namespace, context: Context) -> Documents:
    """Read all documents. Raise UsageError if one has a mistake; all of them are written first."""
    from moldau.operations.documents import Reader
    from moldau.runtime.places import absolute_path
    from moldau.runtime.real_files import RealFiles

    files = RealFiles()
    reader = Reader(lambda path: files.read_text(path))
    for given in arguments.file:
        path = absolute_path(given)
        if not files.exists(path):
            raise UsageError(f"there is no file or directory {given}")
        if not files.stat(path).is_dir:
            reader.add(path, given)
            continue
        names = sorted(each for each in files.list(path) if each.endswith(_ENDINGS))
        if not names:
            raise UsageError(f"{given} has no document: none of its files ends as .yaml")
        for name in names:
            reader.add(f"{path}/{name}", f"{given.rstrip('/')}/{name}")
    write_lines(context.err, reader.problems)
    if reader.problems:
        raise UsageError("the documents have errors, so nothing was done: correct them")
    if not reader.documents.named:
        raise UsageError("the documents have no section, such as topics")
    return reader.documents


def _pruned(arguments: Namespace, documents: Documents) -> set[str]:
    """Return the sections in which things are deleted."""
    from moldau.config.file_problems import nearest
    from moldau.operations.documents import SECTIONS

    if arguments.prune is None:
        return set()
    if arguments.prune == _ALL:
        return set(documents.named)
    chosen = arguments.prune.split(",")
    for name in chosen:
        if name not in SECTIONS:
            raise UsageError(f"--prune: there is no section {name}{nearest(name, SECTIONS)}")
        if name not in documents.named:
            raise UsageError(
                f"--prune {name}: the documents have no section {name}: write `{name}:`, or leave "
                "it out"
            )
    return set(chosen)


def _parts(
    arguments: Namespace,
    context: Context,
    documents: Documents,
    pruned: set[str],
    stack: ExitStack,
) -> Iterator[Part]:
    """Yield the part of each section that the documents have, in the order of the steps."""
    from moldau.operations.acls import Acls
    from moldau.operations.quotas import Quotas
    from moldau.operations.topics import Topics

    named = documents.named
    if named & {"topics", "users", "acls", "quotas"}:
        admin = stack.enter_context(opened_admin(arguments, context))
        if "users" in named:
            users = _users(arguments, context, documents, admin, "users" in pruned)
            yield OpenedPart(admin, users)
        if "quotas" in named:
            quotas = Quotas(documents.quotas, prunes="quotas" in pruned)
            yield OpenedPart(admin, quotas)
        if "acls" in named:
            yield OpenedPart(admin, Acls(documents.acls, prunes="acls" in pruned))
        if "topics" in named:
            topics = Topics(admin.runtime, documents.topics, prunes="topics" in pruned)
            yield OpenedPart(admin, topics)
    places = Places(arguments, context, stack)
    if "schemas" in named:
        from moldau.operations.schemas import Schemas

        schemas = Schemas(documents.schemas, prunes="schemas" in pruned)
        yield OpenedPart(places.registry(), schemas)
    if "connectors" in named:
        from moldau.operations.connectors import Connectors

        yield Connectors(places.rest(), documents.connectors, prunes="connectors" in pruned)


def _users(
    arguments: Namespace,
    context: Context,
    documents: Documents,
    admin: OpenClient[Admin],
    prunes: bool,
) -> Noun[Admin]:
    from moldau.link.security import user_of
    from moldau.operations.users import UserOptions, Users, read_password
    from moldau.runtime.real_files import RealFiles

    files = RealFiles()
    options = UserOptions(prunes, arguments.set_passwords, user_of(admin.client.settings))
    return Users(
        documents.users,
        options,
        lambda user: read_password(user, context.environment, files.read_text),
    )


def _planned(part: Part) -> list[PlanStep]:
    """Return the steps of a part. An error names its section."""
    try:
        return part.plan()
    except MoldauError as error:
        raise MoldauError(f"{_SECTION_OF[part.kind]}: {error}") from error


def _placed(step: PlanStep, documents: Documents) -> PlanStep:
    """Return the step; one that is not possible names its place in the documents."""
    from moldau.operations.plan import Action

    place = documents.places.get((_SECTION_OF[step.kind], step.name))
    if step.action is not Action.REFUSE or place is None:
        return step
    return replace(step, note=f"{place}: {step.note}" if step.note else place)


def _write_plan(arguments: Namespace, context: Context, steps: Sequence[PlanStep]) -> None:
    from moldau.operations.plan import plan_json, plan_lines

    if arguments.json:
        write_json(context.out, plan_json(steps))
    else:
        write_lines(context.out, plan_lines(steps, _KIND_WIDTH))
    context.out.flush()


def _finish(
    arguments: Namespace, context: Context, parts: Sequence[Part], steps: Sequence[PlanStep]
) -> int:
    """Do the steps of the plan, if there are any and the user agrees."""
    from moldau.operations.plan import Action

    if any(each.action is Action.REFUSE for each in steps):
        context.err.write("moldau: nothing was changed: the steps with ! are not possible\n")
        return Exit.FAILED
    todo = [each for each in steps if each.action in (Action.CREATE, Action.UPDATE)]
    todo += [each for each in reversed(steps) if each.action is Action.REMOVE]
    if arguments.dry_run or not todo:
        return Exit.DONE
    if not arguments.yes and not context.asks_to_agree():
        context.err.write("moldau: nothing was changed: type yes, or give --yes\n")
        return Exit.FAILED
    by_kind = {each.kind: each for each in parts}
    for done, step in enumerate(todo):
        try:
            by_kind[step.kind].do(step)
        except MoldauError as error:
            left = len(todo) - done - 1
            raise MoldauError(
                f"{_SECTION_OF[step.kind]}: {step.name}: {error}; {done} of {len(todo)} steps were "
                f"done, {left} were not tried: apply again when the cause is gone"
            ) from error
        if not arguments.json:
            write_lines(context.out, [f"{_PAST[step.action.value]} {step.kind} {step.name}"])
            context.out.flush()
    return Exit.DONE


_PAST: Final = {"create": "created", "update": "updated", "remove": "removed"}


def add_places(parser: ArgumentParser) -> None:
    """Add `--registry` and `--connect`."""
    parser.add_argument(
        "--registry",
        metavar="URL",
        help=f"the Schema Registry; else ${VARIABLE}, else the profile's, else {DEFAULT}",
    )
    parser.add_argument(
        "--connect",
        dest="url",
        metavar="URL",
        help=f"a Connect worker's REST API; else ${CONNECT_VARIABLE}, else the profile's, else "
        f"{DEFAULT_URL}",
    )


class Places:
    """Opens the registry and the worker when they are asked for."""

    def __init__(self, arguments: Namespace, context: Context, stack: ExitStack) -> None:
        self._arguments = arguments
        self._context = context
        self._stack = stack
        self._clusters = (arguments.bootstrap, arguments.command_config)

    @property
    def has_registry(self) -> bool:
        """Whether something names a registry."""
        return registry_place(self._arguments.registry, self._context, *self._clusters) is not None

    def registry(self) -> OpenClient[SchemaRegistry]:
        """Return the registry's client."""
        settings = registry_settings(
            self._arguments.registry,
            self._arguments.command_config,
            self._context,
            profile_beside(self._context, *self._clusters),
        )
        return self._stack.enter_context(opened_registry(settings))

    @property
    def has_worker(self) -> bool:
        """Whether something names a Connect worker."""
        return self._worker_url() is not None

    def rest(self) -> Rest:
        """Return the worker's REST API."""
        arguments = Namespace(url=self._worker_url() or DEFAULT_URL)
        return self._stack.enter_context(open_rest(arguments, self._context, _CONNECT))

    def _worker_url(self) -> str | None:
        profile = profile_beside(self._context, *self._clusters)
        variable = self._context.environment.get(CONNECT_VARIABLE)
        if self._context.profile_name is not None:
            variable = None
        return self._arguments.url or variable or profile.connect


command = ApplyCommand()
