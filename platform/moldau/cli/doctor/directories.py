"""Judge the directories for data and for temporary files. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.cli.doctor.finding import Finding, ok, problem, size, warning

if TYPE_CHECKING:
    from moldau.runtime.file_systems import DirectoryFacts

OF_NETWORK: Final = frozenset(
    ("9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3")
    + ("fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "smbfs", "vboxsf", "virtiofs")
)
OF_MEMORY: Final = frozenset(("ramfs", "tmpfs"))
OF_CONTAINER: Final = frozenset(("aufs", "fuse-overlayfs", "overlay", "overlayfs"))
WITHOUT_RIGHTS: Final = frozenset(("exfat", "msdos", "ntfs", "ntfs3", "vfat"))
FREE_MIN: Final = 256 << 20
"""Below it a broker refuses produces (moldau.log.dir.free.bytes.min)."""
FREE_WANTED: Final = 5 << 30
FREE_FILES_MIN: Final = 10_000
SYNC_S_WANTED: Final = 0.02
TEMPORARY_FREE_MIN: Final = 64 << 20
_DATA: Final = "data directory"
_ELSEWHERE: Final = "give a directory on a disk of this machine: moldau broker start --data DIR"


def data_findings(facts: DirectoryFacts) -> list[Finding]:
    """Judge the directory of a broker: rights, file system, room, and its disk's syncs."""
    if facts.error is not None:
        return [_not_writable(facts)]
    found = [_file_system(facts), _room(facts)]
    return [*found, _syncs(facts)] if facts.sync_seconds else found


def temporary(path: str, facts: DirectoryFacts) -> Finding:
    """Judge the directory for temporary files: Java loads its compiled libraries from there."""
    check = "temporary files"
    other = "export TMPDIR=$HOME/tmp && mkdir -p $TMPDIR"
    if facts.error is not None:
        why = "restores, sorts and Spark write there"
        return problem(check, f"{path} cannot be written: {facts.error}", why, other)
    if facts.is_noexec:
        return warning(
            check,
            f"{path} is mounted noexec",
            "Java unpacks snappy, zstd and RocksDB there and cannot load them: jobs of Spark and "
            "Kafka's own tools fail with UnsatisfiedLinkError",
            "mkdir -p ~/tmp && export JAVA_TOOL_OPTIONS=-Djava.io.tmpdir=$HOME/tmp, or "
            f"sudo mount -o remount,exec {path}",
        )
    if facts.free_bytes < TEMPORARY_FREE_MIN:
        why = "restores, sorts and Spark write there"
        return warning(check, f"{path} has {size(facts.free_bytes)} of room", why, other)
    return ok(check, f"{path}, {size(facts.free_bytes)} free")


def _not_writable(facts: DirectoryFacts) -> Finding:
    cure = f"sudo install -d -o $(id -un) {facts.path}, or give another: --data DIR"
    why = "a broker keeps its logs there"
    return problem(_DATA, f"{facts.path} cannot be written: {facts.error}", why, cure)


def _file_system(facts: DirectoryFacts) -> Finding:
    kind, found = facts.kind, f"{facts.path} on {facts.kind or 'an unknown file system'}"
    if kind in OF_NETWORK:
        why = (
            "a network file system may lose what was synced, keeps locks of processes that have "
            "ended, and stops a broker while its server is away"
        )
        return warning(_DATA, found, why, _ELSEWHERE)
    if kind in OF_MEMORY:
        why = "it is memory: records are gone after a restart of the machine"
        return warning(_DATA, found, why, _ELSEWHERE)
    if kind in OF_CONTAINER:
        why = "it is the container's own layer: records are gone with the container"
        return warning(_DATA, found, why, f"mount a volume: -v moldau-data:{facts.path}")
    if kind in WITHOUT_RIGHTS:
        why = "it knows no rights of users, and loses files if the power fails"
        return warning(_DATA, found, why, _ELSEWHERE)
    return ok(_DATA, found)


def _room(facts: DirectoryFacts) -> Finding:
    check = "free room"
    found = f"{size(facts.free_bytes)} of {size(facts.total_bytes)}"
    why = f"below {size(FREE_MIN)} a broker refuses produces"
    cure = "make room, or shorten what is kept: moldau config set topic NAME retention.ms=86400000"
    if facts.free_files is not None and facts.free_files < FREE_FILES_MIN:
        short = f"{found}, but only {facts.free_files:,} more files (df -i)"
        return problem(check, short, "each segment of a log is three files", "delete small files")
    if facts.free_bytes < FREE_MIN:
        return problem(check, found, why, cure)
    return warning(check, found, why, cure) if facts.free_bytes < FREE_WANTED else ok(check, found)


def _syncs(facts: DirectoryFacts) -> Finding:
    check, taken = "fsync", sorted(facts.sync_seconds)
    median = taken[len(taken) // 2]
    found = f"{median * 1000:.2f} ms (median of {len(taken)}, longest {taken[-1] * 1000:.1f} ms)"
    if median <= SYNC_S_WANTED:
        return ok(check, found)
    return warning(
        check,
        found,
        "the metadata log is synced before each change, and a topic with flush.messages=1 before "
        "each acknowledgement",
        f"{_ELSEWHERE}; a disk with flash, and one that no other program syncs",
    )
