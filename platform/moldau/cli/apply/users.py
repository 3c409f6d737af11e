"""The SCRAM users of a document. Their passwords come from the environment or from files.

A cluster keeps only keys that were derived from a password, so a password cannot be compared. It is
set for a new credential, and for all users with `--set-passwords`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.apply.sections import MECHANISMS, UserSection
from moldau.cli.command import UsageError
from moldau.cli.plans import Action, Change, PlanStep
from moldau.client.admin.security import ITERATIONS, SecurityAdmin
from moldau.protocol.scram import SCRAM_MECHANISMS

if TYPE_CHECKING:
    from moldau.cli.commands.cluster_connection import Opened
    from moldau.client.admin.admin import Admin

KIND: Final = "user"
_PASSWORD: Final = "password"  # noqa: S105 - the name of a key
FoundUsers = Mapping[str, Mapping[str, int]]
"""The iterations of each mechanism, by user."""
PasswordOf = Callable[[UserSection], str]


@dataclass(frozen=True, slots=True)
class UserOptions:
    """Choices of the command line that count for users."""

    prunes: bool = False
    sets_passwords: bool = False
    own_name: str | None = None
    """The user that the command itself logs in as."""


def plan_users(
    wanted: Mapping[str, UserSection],
    found: FoundUsers,
    options: UserOptions,
    password_of: PasswordOf,
) -> list[PlanStep]:
    """Return the steps. `password_of` raises UsageError for a password that is needed and missing;
    such a step is not possible."""
    steps = [
        _step(name, user, found.get(name), options, password_of) for name, user in wanted.items()
    ]
    if options.prunes:
        for name in sorted(found.keys() - wanted.keys()):
            if name == options.own_name:
                note = "this command logs in as that user: add it to the document"
                steps.append(PlanStep(Action.REFUSE, KIND, name, note=note))
            else:
                steps.append(PlanStep(Action.REMOVE, KIND, name))
    return steps


def _step(
    name: str,
    user: UserSection,
    found: Mapping[str, int] | None,
    options: UserOptions,
    password_of: PasswordOf,
) -> PlanStep:
    there = found or {}
    changes = [
        Change(mechanism, _told(there.get(mechanism)), _told(count or ITERATIONS))
        for mechanism, count in user.mechanisms.items()
        if mechanism not in there or there[mechanism] != (count or there[mechanism])
    ]
    if options.sets_passwords and found is not None:
        changes.append(Change(_PASSWORD, "(unknown)", "(set)"))
    note = ""
    if changes:
        try:
            password_of(user)
        except UsageError as error:
            return PlanStep(Action.REFUSE, KIND, name, note=str(error))
    others = sorted(there.keys() - user.mechanisms.keys())
    if options.prunes:
        changes += [Change(each, _told(there[each]), None) for each in others]
    elif others:
        note = f"keeps {', '.join(others)}"
    if found is None:
        return PlanStep(Action.CREATE, KIND, name, tuple(changes))
    if not changes:
        note = "; ".join(filter(None, (note, "--set-passwords sets its password again")))
    return PlanStep(Action.UPDATE if changes else Action.KEEP, KIND, name, tuple(changes), note)


def _told(iterations: int | None) -> str | None:
    return None if iterations is None else f"{iterations} iterations"


def read_password(
    user: UserSection, environment: Mapping[str, str], read_text: Callable[[str], str]
) -> str:
    """Return the password of a user. Raise UsageError, which says where it should be."""
    place = user.password
    if place is None:
        raise UsageError("it needs a password: add password: {env: NAME} or {file: PATH}")
    if place.env is not None:
        password = environment.get(place.env, "")
        if not password:
            raise UsageError(f"its password is not in the environment: set {place.env}")
        return password
    assert place.file is not None
    try:
        lines = read_text(place.file).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise UsageError(f"its password is not in {place.file}: {reason}") from None
    if not lines or not lines[0]:
        raise UsageError(f"its password is not in {place.file}: write it in the first line")
    return lines[0]


def exported(found: FoundUsers) -> dict[str, Any]:
    """Return the section of a document with these users. It names a variable for each password."""
    return {
        name: {
            "password": {"env": f"{_variable(name)}_PASSWORD"},
            "mechanisms": dict(mechanisms),
        }
        for name, mechanisms in found.items()
    }


def _variable(name: str) -> str:
    return "".join(each if each.isalnum() and each.isascii() else "_" for each in name).upper()


async def found_users(client: Admin) -> dict[str, dict[str, int]]:
    """Return all users of the cluster."""
    users = await SecurityAdmin(client).describe_users()
    return {
        each.name: {mechanism.sasl_name: count for mechanism, count in each.iterations.items()}
        for each in users
    }


class Users:
    """Plans and makes the users of a document."""

    kind = KIND

    def __init__(
        self,
        admin: Opened[Admin],
        wanted: Mapping[str, UserSection],
        options: UserOptions,
        password_of: PasswordOf,
    ) -> None:
        self._admin = admin
        self._wanted = wanted
        self._options = options
        self._password_of = password_of
        self._found: FoundUsers = {}

    def plan(self) -> list[PlanStep]:
        """Return the steps."""
        self._found = self._admin.run(found_users)
        return plan_users(self._wanted, self._found, self._options, self._password_of)

    def do(self, step: PlanStep) -> None:
        """Do a step."""
        if step.action is Action.REMOVE:
            self._admin.run(lambda client: SecurityAdmin(client).delete_user(step.name))
        else:
            self._admin.run(lambda client: self._set(client, step))

    async def _set(self, client: Admin, step: PlanStep) -> None:
        user, security = self._wanted[step.name], SecurityAdmin(client)
        there = self._found.get(step.name, {})
        changed = {each.what: each for each in step.changes}
        for name in MECHANISMS:
            change, mechanism = changed.get(name), SCRAM_MECHANISMS[name]
            if change is not None and change.after is None:
                await security.delete_user(step.name, mechanism=mechanism)
            elif change is not None or (_PASSWORD in changed and name in user.mechanisms):
                count = user.mechanisms[name] or there.get(name, ITERATIONS)
                password = self._password_of(user)
                await security.set_password(
                    step.name, password, mechanism=mechanism, iterations=count
                )
