"""`moldau storage format --add-scram` writes the record that Kafka's own tool writes."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

from moldau.broker.controller.storage import read_bootstrap
from moldau.cli.command import Exit
from moldau.protocol.schemas.metadata_log import UserScramCredentialRecord
from moldau.protocol.scram import ScramMechanism, salted_password, server_keys
from moldau.runtime.real_files import RealFiles
from tests.broker.main.test_given import command

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


def test_users_are_in_the_first_records(tmp_path: Path) -> None:
    data = tmp_path / "d"
    code, _, err = command(
        *("storage", "format", "--data", str(data)),
        *("-S", "SCRAM-SHA-256=[name=admin,password=secret]", *ADD),
        home=tmp_path,
    )
    assert (code, err) == (Exit.DONE, "")
    admin, *others = users_of(data)
    assert [each.name for each in others] == ["alice", "bob", "j=r"]
    assert (admin.name, admin.mechanism, admin.iterations) == ("admin", 1, 4096)
    assert len(admin.salt) == 32
    salted = salted_password(ScramMechanism.SHA_256, "secret", admin.salt, 4096)
    assert server_keys(ScramMechanism.SHA_256, salted) == (admin.stored_key, admin.server_key)
