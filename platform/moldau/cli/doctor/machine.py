"""Judge the limits, memory, clock, names and ports of this machine. Pure.

A broker keeps two thirds of the files that it may open for logs: one file for each partition in
use, and two mapped indexes once they are large. It raises its own limit to the hard one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.cli.doctor.finding import Finding, ok, problem, size, warning

if TYPE_CHECKING:
    from moldau.runtime.machine import (
        ClockFacts,
        MachineFacts,
        MemoryFacts,
        NameFacts,
        OpenFilesLimits,
        PortFacts,
    )

PORTS: Final = {
    9092: "broker",
    9093: "controller",
    8083: "Connect",
    8081: "registry",
    8080: "console",
}
"""The default ports, and what listens there."""
FILES_MIN: Final = 1_024
FILES_WANTED: Final = 16_384
FILES_A_PARTITION: Final = 3
MAPPINGS_WANTED: Final = 65_530
"""What Linux allows by default. The logs of a broker map at most half as many."""
MEMORY_MIN: Final = 128 << 20
MEMORY_WANTED: Final = 512 << 20
SWAPPED_WARNED_OF: Final = 256 << 20
JUMP_S_MAX: Final = 0.1
_LOOPBACK: Final = "127.0.0.1"
_OPTIONS: Final = {
    9092: "moldau broker start --listen localhost:9192",
    9093: "another port in listeners and controller.quorum.bootstrap.servers",
    8083: "moldau connect start --listen 127.0.0.1:8183",
    8081: "moldau registry start --listen 127.0.0.1:8181",
    8080: "moldau console --listen 127.0.0.1:8180",
}


def machine_findings(facts: MachineFacts) -> list[Finding]:
    """Judge files, mappings, memory and cores; what the system does not say is left out."""
    found = []
    if facts.open_files is not None:
        found.append(open_files(facts.open_files))
    if facts.mappings_max is not None:
        found.append(mappings(facts.mappings_max))
    if facts.memory is not None:
        found += [memory(facts.memory), swap(facts.memory)]
    return [*found, cores(facts.cpus, facts.usable_cores)]


def open_files(limits: OpenFilesLimits) -> Finding:
    """Judge how many partitions and connections the files are enough for."""
    check, hard = "open files", limits.hard
    if hard is None:
        return ok(check, "any number")
    partitions = hard * 2 // 3 // FILES_A_PARTITION
    found = f"{hard:,}: {partitions:,} partitions in use at a time, {hard // 3:,} connections"
    why = "a broker closes files that it needs again, and refuses connections beyond its share"
    cure = (
        "as root: echo '* hard nofile 1048576' >> /etc/security/limits.conf, and log in again; "
        "a unit of systemd: LimitNOFILE=1048576; a container: --ulimit nofile=1048576:1048576"
    )
    if hard < FILES_MIN:
        return problem(check, found, why, cure)
    return warning(check, found, why, cure) if hard < FILES_WANTED else ok(check, found)


def mappings(most: int) -> Finding:
    """Judge how many parts of files a process may map."""
    check, found = "memory maps", f"a process may have {most:,} (vm.max_map_count)"
    if most >= MAPPINGS_WANTED:
        return ok(check, found)
    return warning(
        check,
        found,
        "large indexes of partitions are mapped, and a partition without one cannot be opened",
        "sudo sysctl -w vm.max_map_count=262144, and the same line without sudo sysctl -w in "
        "/etc/sysctl.d/moldau.conf",
    )


def memory(facts: MemoryFacts) -> Finding:
    """Judge the memory that is free for moldau."""
    check = "memory"
    found = f"{size(facts.available_bytes)} of {size(facts.total_bytes)} available"
    if facts.limit_bytes is not None:
        found += f", the container's limit is {size(facts.limit_bytes)}"
    least = min(facts.available_bytes, facts.limit_bytes or facts.available_bytes)
    why = "the system ends a process that it has no memory for, and a broker begins with 50 MiB"
    cure = (
        "stop what needs memory (ps --sort=-rss -eo rss,pid,args), or raise the limit: "
        "--memory=2g of a container, resources.limits.memory of the chart, MemoryMax= of systemd"
    )
    if least < MEMORY_MIN:
        return problem(check, found, why, cure)
    return warning(check, found, why, cure) if least < MEMORY_WANTED else ok(check, found)


def swap(facts: MemoryFacts) -> Finding:
    """Judge how much of the programs is on the disk."""
    check, used = "swap", facts.swap_bytes - facts.swap_free_bytes
    if not facts.swap_bytes:
        return ok(check, "none")
    found = f"{size(used)} of {size(facts.swap_bytes)} used"
    if used < SWAPPED_WARNED_OF:
        return ok(check, found)
    return warning(
        check,
        found,
        "a broker whose memory is on the disk answers seconds later, and loses its leaders",
        "sudo sysctl -w vm.swappiness=1 && sudo swapoff -a && sudo swapon -a",
    )


def cores(count: int, usable: float) -> Finding:
    """Judge whether a process has a whole core."""
    check, found = "cores", str(count)
    if usable < count:
        found += f", limited to {round(usable, 2):g}"
    if usable >= 1:
        return ok(check, found)
    return warning(
        check,
        found,
        "a broker is stopped for parts of each tenth of a second, and answers late",
        "give it a core: --cpus=1 of a container, no resources.limits.cpu in the chart, "
        "CPUQuota=100% of systemd",
    )


def clock(facts: ClockFacts) -> Finding:
    """Judge whether the clock is right, as far as this machine can know."""
    check, cure = "clock", "sudo timedatectl set-ntp true, or install chrony"
    why = "timestamps of records, retention by time, tokens and certificates depend on it"
    if facts.now_s < facts.installed_s - JUMP_S_MAX:
        late_h = (facts.installed_s - facts.now_s) / 3600
        return problem(check, f"{late_h:.1f} h before moldau was installed", why, cure)
    if abs(facts.jump_s) > JUMP_S_MAX:
        return warning(check, f"it jumped by {facts.jump_s:+.3f} s while this ran", why, cure)
    if facts.is_synchronised is False:
        return warning(check, "no time server sets it", why, cure)
    known = "set by a time server" if facts.is_synchronised else "nothing says what sets it"
    return ok(check, known)


def localhost(facts: NameFacts | None) -> Finding:
    """Judge `localhost`, where everything listens by default."""
    check = "localhost"
    why = "everything listens at localhost by default, and clients look for it there"
    hosts = "echo '127.0.0.1 localhost' | sudo tee -a /etc/hosts"
    if facts is None:
        return problem(check, "its address was not found in time", why, hosts)
    addresses = ", ".join(facts.addresses)
    if facts.error is not None:
        return problem(check, f"no address: {facts.error}", why, hosts)
    if _LOOPBACK not in facts.addresses:
        return problem(check, f"only {addresses}, not {_LOOPBACK}", why, hosts)
    if "::1" in facts.addresses and not facts.has_ipv6:
        return warning(
            check,
            f"{addresses}, and this machine has no IPv6",
            "each program tries ::1 first, and goes on to 127.0.0.1 a moment later",
            "take localhost out of the line of ::1 in /etc/hosts",
        )
    return ok(check, addresses)


def host_name(name: str, facts: NameFacts | None) -> Finding:
    """Judge the name of this machine, which brokers advertise unless they are told otherwise."""
    check = "host name"
    why = "a broker that listens to the network advertises this name, unless it is told another"
    cure = f"echo '127.0.1.1 {name}' | sudo tee -a /etc/hosts, or set advertised.listeners"
    if facts is None:
        found = f"{name}: no name server has answered in time"
        return warning(check, found, why + "; each look-up waits", cure)
    if facts.error is not None:
        return warning(check, f"{name} has no address: {facts.error}", why, cure)
    return ok(check, f"{name} is {', '.join(facts.addresses[:2])}")


def ports(found: list[PortFacts]) -> list[Finding]:
    """Judge the default ports: one line for those that are free or moldau's, one for each other."""
    fine, taken = [], []
    for each in found:
        if not each.is_taken:
            fine.append(f"{each.port} free")
        elif each.holder is not None and "moldau" in each.holder:
            fine.append(f"{each.port} has moldau ({each.holder})")
        else:
            taken.append(_taken(each))
    return [*([ok("ports", ", ".join(fine))] if fine else []), *taken]


def _taken(facts: PortFacts) -> Finding:
    usual = PORTS.get(facts.port, "moldau")
    holder = facts.holder or "a process of another user (sudo ss -ltnp shows it)"
    return warning(
        "ports",
        f"{facts.port} is taken by {holder}",
        f"it is the default port of {usual}, which does not start there",
        f"stop that process, or: {_OPTIONS.get(facts.port, 'give another port')}",
    )
