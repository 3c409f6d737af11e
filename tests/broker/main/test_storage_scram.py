"""`moldau storage format --add-scram` writes the record that Kafka's own tool writes."""

from __future__ import annotations

from pathlib import Path

from moldau.cli.command import Exit
from moldau.protocol.scram import ScramMechanism, salted_password, server_keys
from tests.broker.main.command_line import command
from tests.broker.main.scram_users import ADD, users_of


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
