// Jobs done by Apache Kafka's own Java client: one line of JSON in, one out (see program.py).

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class JavaClient {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long TIMEOUT_S = 30;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader jobs =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = jobs.readLine(); line != null; line = jobs.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("ok", done(JSON.readTree(line)));
            } catch (Exception failed) {
                Throwable cause = failed instanceof ExecutionException ? failed.getCause() : failed;
                answer.put("error", String.valueOf(cause));
            }
            answers.println(answer);
        }
    }

    private static JsonNode done(JsonNode job) throws Exception {
        return switch (job.get("do").asText()) {
            case "produce" -> produce(job);
            case "consume" -> consume(job);
            case "offset" -> offset(job);
            default -> administer(job);
        };
    }

    private static Properties settings(JsonNode job) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", job.get("bootstrap").asText());
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        return settings;
    }

    private static JsonNode produce(JsonNode job) throws Exception {
        Properties settings = settings(job);
        settings.put("compression.type", job.get("codec").asText());
        settings.put("acks", job.get("acks").asText());
        settings.put("enable.idempotence", job.get("idempotent").asText());
        settings.put("max.request.size", "10000000");
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            for (JsonNode each : job.get("records")) {
                sent.add(producer.send(record(job, each)));
            }
            producer.flush();
        }
        ArrayNode offsets = JSON.createArrayNode();
        for (Future<RecordMetadata> each : sent) {
            offsets.add(each.get(TIMEOUT_S, TimeUnit.SECONDS).offset());
        }
        return offsets;
    }

    private static ProducerRecord<byte[], byte[]> record(JsonNode job, JsonNode told) {
        List<Header> headers = new ArrayList<>();
        for (JsonNode each : told.get("headers")) {
            headers.add(new RecordHeader(each.get(0).asText(), bytes(each.get(1))));
        }
        return new ProducerRecord<>(
            job.get("topic").asText(),
            job.get("partition").asInt(),
            told.get("timestamp").asLong(),
            bytes(told.get("key")),
            bytes(told.get("value")),
            headers);
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode job) {
        Properties settings = settings(job);
        settings.put("auto.offset.reset", "none");
        boolean committed = job.path("read_committed").asBoolean();
        settings.put("isolation.level", committed ? "read_committed" : "read_uncommitted");
        return new KafkaConsumer<>(settings);
    }

    private static JsonNode consume(JsonNode job) {
        TopicPartition where = where(job);
        int count = job.get("count").asInt();
        ArrayNode found = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(job)) {
            consumer.assign(List.of(where));
            consumer.seek(where, job.get("start").asLong());
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(TIMEOUT_S);
            while (found.size() < count) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException(found.size() + " records came");
                }
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(500))) {
                    if (found.size() < count) {
                        found.add(told(each));
                    }
                }
            }
        }
        return found;
    }

    private static ObjectNode told(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode told = JSON.createObjectNode();
        told.put("key", text(record.key()));
        told.put("value", text(record.value()));
        told.put("timestamp", record.timestamp());
        told.put("offset", record.offset());
        ArrayNode headers = told.putArray("headers");
        for (Header each : record.headers()) {
            headers.addArray().add(each.key()).add(text(each.value()));
        }
        return told;
    }

    private static JsonNode offset(JsonNode job) {
        TopicPartition where = where(job);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(job)) {
            String at = job.get("at").asText();
            if (at.equals("earliest")) {
                return JSON.valueToTree(consumer.beginningOffsets(List.of(where)).get(where));
            }
            if (at.equals("latest")) {
                return JSON.valueToTree(consumer.endOffsets(List.of(where)).get(where));
            }
            OffsetAndTimestamp found =
                consumer.offsetsForTimes(Map.of(where, job.get("at").asLong())).get(where);
            return JSON.valueToTree(found == null ? -1L : found.offset());
        }
    }

    private static JsonNode administer(JsonNode job) throws Exception {
        String topic = job.path("topic").asText();
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        try (Admin admin = Admin.create(settings(job))) {
            switch (job.get("do").asText()) {
                case "create" -> admin.createTopics(List.of(newTopic(job))).all().get();
                case "grow" -> admin
                    .createPartitions(
                        Map.of(topic, NewPartitions.increaseTo(job.get("partitions").asInt())))
                    .all().get();
                case "alter" -> {
                    ConfigEntry entry =
                        new ConfigEntry(job.get("name").asText(), job.get("value").asText());
                    AlterConfigOp set = new AlterConfigOp(entry, AlterConfigOp.OpType.SET);
                    admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
                }
                case "trim" -> trim(admin, job);
                case "delete" -> admin.deleteTopics(List.of(topic)).all().get();
                case "describe" -> {
                    var found = admin.describeTopics(List.of(topic)).allTopicNames().get();
                    return JSON.valueToTree(found.get(topic).partitions().size());
                }
                case "configs" -> {
                    var found = admin.describeConfigs(List.of(resource)).all().get().get(resource);
                    ObjectNode values = JSON.createObjectNode();
                    found.entries().forEach(each -> values.put(each.name(), each.value()));
                    return values;
                }
                case "topics" -> {
                    return JSON.valueToTree(new TreeSet<>(admin.listTopics().names().get()));
                }
                case "cluster" -> {
                    return cluster(admin.describeCluster());
                }
                default -> throw new IllegalArgumentException("no such job");
            }
        }
        return JSON.valueToTree(true);
    }

    private static NewTopic newTopic(JsonNode job) {
        Map<String, String> configs = new HashMap<>();
        job.get("configs").fields()
            .forEachRemaining(each -> configs.put(each.getKey(), each.getValue().asText()));
        String topic = job.get("topic").asText();
        return new NewTopic(topic, job.get("partitions").asInt(), (short) 1).configs(configs);
    }

    private static void trim(Admin admin, JsonNode job) throws Exception {
        long before = job.get("before").asLong();
        TopicPartition where = where(job);
        long low = admin
            .deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(before)))
            .lowWatermarks().get(where).get().lowWatermark();
        if (low != before) {
            throw new IllegalStateException("the log starts at " + low);
        }
    }

    private static JsonNode cluster(DescribeClusterResult found) throws Exception {
        ObjectNode told = JSON.createObjectNode();
        told.put("id", found.clusterId().get());
        ArrayNode nodes = told.putArray("brokers");
        for (Node each : found.nodes().get()) {
            nodes.addArray().add(each.id()).add(each.host()).add(each.port());
        }
        return told;
    }

    private static TopicPartition where(JsonNode job) {
        return new TopicPartition(job.get("topic").asText(), job.get("partition").asInt());
    }

    private static byte[] bytes(JsonNode told) {
        return told.isNull() ? null : Base64.getDecoder().decode(told.asText());
    }

    private static String text(byte[] value) {
        return value == null ? null : Base64.getEncoder().encodeToString(value);
    }
}
