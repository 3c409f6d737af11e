"""Asks Apache Kafka for its rows and answers anew, and writes docs/settings.md.

python -m tests.broker.settings.renew        # both; the page only where there is no Java
"""

from __future__ import annotations

from tests.broker.settings import kept
from tests.broker.settings.page import PAGE, render
from tests.peers.apache_kafka import PeerMissing, fetch


def main() -> None:
    PAGE.write_text(render(), encoding="ascii")
    try:
        kafka = fetch()
    except PeerMissing as missing:
        print(f"Kafka's answers stay as they are: {missing}")
        return
    kept.write(kept.ask_facts(kafka), kept.ask_probes(kafka), kept.ask_combinations(kafka))


if __name__ == "__main__":
    main()
