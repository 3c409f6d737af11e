"""SCRAM users: their passwords are set, and documents say which there are.

The passwords of a document come from the environment or from files.

A cluster keeps only keys that were derived from a password, so a password cannot be compared. It is
set for a new credential, and for all users with `--set-passwords`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moldau.client.admin.security import ITERATIONS, SecurityAdmin, in_turn
from moldau.deferred import dataclass
from moldau.errors import BadGiven
from moldau.operations.plan import Action, Change, PlanStep
from moldau.protocol.scram import SCRAM_MECHANISMS, ScramMechanism

if TYPE_CHECKING:
    from moldau.client.admin.admin import Admin

KIND: Final = "user"
_PASSWORD: Final = "password"  # noqa: S105 - the name of a key
FoundUsers = Mapping[str, Mapping[str, int]]
"""The iterations of each mechanism, by user."""


@dataclass(frozen=True, slots=True)
class PasswordPlace:
    """The place of a password, which is in no document: a variable or a file."""

    env: str | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True)
class UserSpec:
    """What a user is to be. Iterations that are None may be any; a new user has the default."""

    mechanisms: Mapping[str, int | None]
    password: PasswordPlace | None = None


PasswordOf = Callable[[UserSpec], str]


@dataclass(frozen=True, slots=True)
class UserOptions:
    """Choices of the command line that count for users."""

    prunes: bool = False
    sets_passwords: bool = False
    own_name: str | None = None
    """The user that the command itself logs in as."""


def plan_users(
    wanted: Mapping[str, UserSpec],
    found: FoundUsers,
    options: UserOptions,
    password_of: PasswordOf,
) -> list[PlanStep]:
    """Return the steps. `password_of` raises BadGiven for a password that is needed and missing;
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
    user: UserSpec,
    found: Mapping[str, int] | None,
    options: UserOptions,
    password_of: PasswordOf,
) -> PlanStep:
    there = found or {}
    changes = [
        Change(mechanism, _iterations(there.get(mechanism)), _iterations(count or ITERATIONS))
        for mechanism, count in user.mechanisms.items()
        if mechanism not in there or there[mechanism] != (count or there[mechanism])
    ]
    if options.sets_passwords and found is not None:
        changes.append(Change(_PASSWORD, "(unknown)", "(set)"))
    note = ""
    if changes:
        try:
            password_of(user)
        except BadGiven as error:
            return PlanStep(Action.REFUSE, KIND, name, note=str(error))
    others = sorted(there.keys() - user.mechanisms.keys())
    if options.prunes:
        changes += [Change(each, _iterations(there[each]), None) for each in others]
    elif others:
        note = f"keeps {', '.join(others)}"
    if found is None:
        return PlanStep(Action.CREATE, KIND, name, tuple(changes))
    if not changes:
        note = "; ".join(filter(None, (note, "--set-passwords sets its password again")))
    return PlanStep(Action.UPDATE if changes else Action.KEEP, KIND, name, tuple(changes), note)


def _iterations(iterations: int | None) -> str | None:
    return None if iterations is None else f"{iterations} iterations"


def read_password(
    user: UserSpec, environment: Mapping[str, str], read_text: Callable[[str], str]
) -> str:
    """Return the password of a user. Raise BadGiven, which says where it should be."""
    place = user.password
    if place is None:
        raise BadGiven("it needs a password: add password: {env: NAME} or {file: PATH}")
    if place.env is not None:
        password = environment.get(place.env, "")
        if not password:
            raise BadGiven(f"its password is not in the environment: set {place.env}")
        return password
    assert place.file is not None
    try:
        lines = read_text(place.file).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise BadGiven(f"its password is not in {place.file}: {reason}") from None
    if not lines or not lines[0]:
        raise BadGiven(f"its password is not in {place.file}: write it in the first line")
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


async def set_password(
    admin: Admin,
    user: str,
    password: str,
    mechanisms: Sequence[ScramMechanism],
    iterations: int = ITERATIONS,
) -> None:
    """Set the password of a new or known user for these mechanisms. Raise PartlyChanged if that
    fails after one is done."""
    security = SecurityAdmin(admin)
    await in_turn(
        user,
        mechanisms,
        lambda one: security.set_password(user, password, mechanism=one, iterations=iterations),
    )


async def remove(
    admin: Admin, user: str, mechanisms: Sequence[ScramMechanism] | None = None
) -> None:
    """Remove the credentials of a user for these mechanisms, or for all. Rules about it stay. Raise
    PartlyChanged if that fails after one is done."""
    security = SecurityAdmin(admin)
    if mechanisms is None:
        await security.delete_user(user)
        return
    await in_turn(user, mechanisms, lambda one: security.delete_user(user, mechanism=one))


async def remove_held(admin: Admin, user: str, mechanisms: Sequence[ScramMechanism]) -> None:
    """Remove the credentials of a user for those of these mechanisms that it has."""
    users = {each.name: each.iterations for each in await SecurityAdmin(admin).describe_users()}
    await remove(admin, user, [each for each in mechanisms if each in users.get(user, {})])


@dataclass
class Users:
    """Plans and makes the users of a document."""

    kind: ClassVar = KIND
    wanted: Mapping[str, UserSpec]
    options: UserOptions
    password_of: PasswordOf
    found: FoundUsers = field(default_factory=dict)

    async def plan(self, admin: Admin) -> list[PlanStep]:
        """Return the steps."""
        self.found = await found_users(admin)
        return plan_users(self.wanted, self.found, self.options, self.password_of)

    async def do(self, admin: Admin, step: PlanStep) -> None:
        """Do a step."""
        security = SecurityAdmin(admin)
        if step.action is Action.REMOVE:
            await security.delete_user(step.name)
            return
        user = self.wanted[step.name]
        counts = user.mechanisms
        there = self.found.get(step.name, {})
        changed = {each.what: each for each in step.changes}
        for name, mechanism in SCRAM_MECHANISMS.items():
            change = changed.get(name)
            if change is not None and change.after is None:
                await security.delete_user(step.name, mechanism=mechanism)
            elif change is not None or (_PASSWORD in changed and name in counts):
                count = counts[name] or there.get(name, ITERATIONS)
                await set_password(admin, step.name, self.password_of(user), [mechanism], count)
