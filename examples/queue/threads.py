"""The same without asyncio."""

from contextlib import suppress

from moldau.client.sync import ShareConsumer

with (
    suppress(KeyboardInterrupt),
    ShareConsumer("orders", group="mailer", bootstrap_servers="localhost:9092") as queue,
):
    for message in queue:
        print("sent", message.value.decode(), flush=True)
        message.ack()
