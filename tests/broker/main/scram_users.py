"""Users that `moldau storage format` adds, and those that a directory has."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

from moldau.broker.controller.storage import read_bootstrap
from moldau.protocol.schemas.metadata_log import UserScramCredentialRecord
from moldau.protocol.scram import ScramMechanism, salted_password
from moldau.runtime.real_files import RealFiles

SALT = b64encode(b"salt" * 8).decode()

SALTED = b64encode(salted_password(ScramMechanism.SHA_512, "s", b"salt" * 8, 5000)).decode()

USERS = (
    f"SCRAM-SHA-256=[name=alice,password=alice-secret,salt={SALT}]",
    f"SCRAM-SHA-512=[name=bob,saltedpassword={SALTED},salt={SALT},iterations=5000]",
    f'SCRAM-SHA-256=[name="j=r",password=" a=b ",salt={SALT},iterations=16384]',
)

ADD = [word for each in USERS for word in ("--add-scram", each)]


def users_of(directory: Path) -> list[UserScramCredentialRecord]:
    records = read_bootstrap(RealFiles(), str(directory))
    return [each for each in records if isinstance(each, UserScramCredentialRecord)]
