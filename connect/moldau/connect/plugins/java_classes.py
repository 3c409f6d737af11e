"""The best-known connectors, transforms and converters of Java's Connect, and what does their work
here.

Java's JARs do not run in this worker. A class that has a counterpart here under its own name is not
in the table: it is found as a plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_CDC: Final = (
    "JdbcSource reads new and changed rows (mode=timestamp+incrementing); for a database's log "
    "run Debezium in Java's worker or as Debezium Server, against this cluster: JdbcSink and "
    "pipelines take its change events"
)
_LAKE: Final = "SparkSink writes Parquet, Delta and Iceberg to any file system that Spark reaches"
_FILES: Final = "FileStreamSource, which reads lines, JSON, CSV and Parquet"
_CLOUD: Final = "a Spark job of a pipeline (docs/pipelines.md), with Spark's connector for it"
_QUEUE: Final = "a producer or consumer of a few lines (docs/client.md), or Java's worker beside it"
_MIRROR: Final = "`moldau mirror` copies topics, groups and rules between clusters"

COUNTERPARTS: Final[Mapping[str, str]] = {
    "io.debezium.connector.postgresql.PostgresConnector": _CDC,
    "io.debezium.connector.mysql.MySqlConnector": _CDC,
    "io.debezium.connector.mariadb.MariaDbConnector": _CDC,
    "io.debezium.connector.sqlserver.SqlServerConnector": _CDC,
    "io.debezium.connector.oracle.OracleConnector": _CDC,
    "io.debezium.connector.db2.Db2Connector": _CDC,
    "io.debezium.connector.mongodb.MongoDbConnector": _CLOUD,
    "io.debezium.connector.jdbc.JdbcSinkConnector": "JdbcSink, which reads change events as well",
    "io.debezium.transforms.outbox.EventRouter": "the transform Expr, or a Streams app",
    "io.debezium.converters.BinaryDataConverter": "ByteArrayConverter",
    "io.confluent.connect.s3.S3SinkConnector": _LAKE,
    "io.confluent.connect.s3.source.S3SourceConnector": "SparkSource reads what Spark reads",
    "io.confluent.connect.gcs.GcsSinkConnector": _LAKE,
    "io.confluent.connect.azure.blob.AzureBlobStorageSinkConnector": _LAKE,
    "io.confluent.connect.azure.datalake.gen2.AzureDataLakeGen2SinkConnector": _LAKE,
    "io.confluent.connect.hdfs.HdfsSinkConnector": _LAKE,
    "io.confluent.connect.hdfs3.Hdfs3SinkConnector": _LAKE,
    "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector": _LAKE,
    "io.aiven.kafka.connect.gcs.GcsSinkConnector": _LAKE,
    "io.tabular.iceberg.connect.IcebergSinkConnector": _LAKE,
    "org.apache.iceberg.connect.IcebergSinkConnector": _LAKE,
    "io.delta.kafka.connect.DeltaSinkConnector": _LAKE,
    "com.snowflake.kafka.connector.SnowflakeSinkConnector": _CLOUD,
    "com.wepay.kafka.connect.bigquery.BigQuerySinkConnector": _CLOUD,
    "com.clickhouse.kafka.connect.ClickHouseSinkConnector": _CLOUD,
    "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector": _CLOUD,
    "io.aiven.kafka.connect.opensearch.OpensearchSinkConnector": _CLOUD,
    "com.mongodb.kafka.connect.MongoSinkConnector": _CLOUD,
    "com.mongodb.kafka.connect.MongoSourceConnector": _CLOUD,
    "com.datastax.oss.kafka.sink.CassandraSinkConnector": _CLOUD,
    "com.redis.kafka.connect.RedisSinkConnector": _QUEUE,
    "io.confluent.connect.http.HttpSinkConnector": _QUEUE,
    "io.confluent.connect.jms.JmsSourceConnector": _QUEUE,
    "io.confluent.connect.rabbitmq.RabbitMQSourceConnector": _QUEUE,
    "com.ibm.eventstreams.connect.mqsource.MQSourceConnector": _QUEUE,
    "io.confluent.connect.mqtt.MqttSourceConnector": _QUEUE,
    "com.github.jcustenborder.kafka.connect.spooldir.SpoolDirCsvSourceConnector": _FILES,
    "com.github.mmolimar.kafka.connect.fs.FsSourceConnector": _FILES,
    "io.confluent.kafka.connect.datagen.DatagenConnector": "`moldau produce --count`",
    "io.confluent.connect.replicator.ReplicatorSourceConnector": _MIRROR,
}
_PACKAGES: Final = ("io.", "com.", "org.", "net.", "de.", "fr.", "uk.", "dev.", "ch.")


def advice_on(name: str) -> str:
    """Return what to do about a class of Java that is not installed here, or an empty text for a
    name that is none of Java's."""
    known = COUNTERPARTS.get(name)
    if known is not None:
        return f"it is a class of Java, whose JARs do not run here; what does its work: {known}"
    if name.startswith(_PACKAGES):
        return "it is a class of Java, whose JARs do not run here"
    return ""
