"""The job that one writes without a connector: Spark's own source, from_json, Parquet.

`python -m bench.spark_by_hand BROKER TOPIC COLUMNS MASTER CONF` prints the seconds from the begin
of the query to its end, in a session that has done nothing before.
"""

from __future__ import annotations

import json
import sys
import time
from tempfile import TemporaryDirectory

from moldau.spark.session import new_session


def main() -> None:
    from pyspark.sql.functions import col, from_json

    broker, topic, columns, master, conf = sys.argv[1:]
    session = new_session("by hand", master=master, conf=json.loads(conf))
    with TemporaryDirectory(prefix="moldau-bench-") as folder:
        began = time.perf_counter()
        given = {"subscribe": topic, "startingOffsets": "earliest"}
        given["kafka.bootstrap.servers"] = broker
        records = session.readStream.format("kafka").options(**given).load()
        parsed = from_json(col("value").cast("string"), columns)
        rows = records.select(parsed.alias("row")).select("row.*")
        writer = rows.writeStream.format("parquet").option("path", f"{folder}/rows")
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
        print(time.perf_counter() - began)
    session.stop()


if __name__ == "__main__":
    main()
