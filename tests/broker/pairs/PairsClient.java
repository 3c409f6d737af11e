import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The client of a case in Java: see program.py. An error that the library leaves to the program ends
 *  both clients of a copier, which begins again at what is committed. */
public class PairsClient {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int PARTITIONS = 4;
    private static final int WORKERS = 2;
    private static final Duration IDLE = Duration.ofMillis(200);

    private final JsonNode job;
    private final String sender;
    private final List<String> errors = Collections.synchronizedList(new ArrayList<>());
    private volatile boolean stops = false;

    private PairsClient(JsonNode job) {
        this.job = job;
        this.sender = choice("sender");
    }

    public static void main(String[] words) {
        try {
            run();
        } catch (Exception error) {
            error.printStackTrace(); // what runs a source file cannot show the traces of other threads
            System.exit(1);
        }
    }

    private static void run() throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var client = new PairsClient(JSON.readTree(input.readLine()));
        List<Thread> copiers = new ArrayList<>();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode wish = JSON.readTree(line);
            if (wish.get("do").asText().equals("send")) {
                client.send(wish.get("pieces"));
                System.out.println("{\"did\": \"send\"}");
                continue;
            }
            for (int worker = 0; worker < WORKERS; worker++) {
                int number = worker;
                copiers.add(new Thread(() -> client.copy(number)));
                copiers.get(copiers.size() - 1).start();
            }
        }
        client.stops = true;
        for (Thread each : copiers) {
            each.join();
        }
        System.out.println(JSON.writeValueAsString(Map.of("errors", client.errors)));
    }

    private String choice(String column) {
        return job.get("case").get(column).asText();
    }

    private boolean isTransactional() {
        return !sender.equals("plain") && !sender.equals("idempotent");
    }

    private Map<String, Object> settings() {
        Map<String, Object> found = new HashMap<>();
        job.get("kafka").properties().forEach(each -> found.put(each.getKey(), each.getValue().asText()));
        found.put("client.id", job.get("name").asText());
        found.put("metadata.max.age.ms", 1000);
        return found;
    }

    private KafkaProducer<byte[], byte[]> producer(String ending) {
        Map<String, Object> settings = settings();
        settings.put("linger.ms", 0);
        settings.put("batch.size", sender.equals("pipelined") ? 0 : 512);
        settings.put("max.in.flight.requests.per.connection", sender.equals("transactional") ? 1 : 5);
        settings.put("compression.type", choice("codec"));
        settings.put("enable.idempotence", !sender.equals("plain"));
        if (isTransactional()) {
            settings.put("transactional.id", job.get("name").asText() + "-" + ending);
            settings.put("transaction.timeout.ms", 20000);
        }
        var bytes = new ByteArraySerializer();
        var made = new KafkaProducer<byte[], byte[]>(settings, bytes, bytes);
        if (isTransactional()) {
            made.initTransactions();
        }
        return made;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private void send(JsonNode pieces) throws Exception {
        String source = job.get("source").asText();
        try (var producer = producer("source")) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode piece : pieces) {
                if (isTransactional()) {
                    producer.beginTransaction();
                }
                for (int number = piece.get("begin").asInt(); number < piece.get("end").asInt(); number++) {
                    byte[] value = bytes(number + " " + "x".repeat(number % 50));
                    var done = producer.send(
                            new ProducerRecord<>(source, number % PARTITIONS, bytes("key-" + number), value));
                    if (!piece.get("is_aborted").asBoolean()) {
                        sent.add(done);
                    }
                }
                if (isTransactional() && piece.get("is_aborted").asBoolean()) {
                    producer.abortTransaction();
                } else if (isTransactional()) {
                    producer.commitTransaction();
                }
            }
            producer.flush();
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
        }
    }

    private void copy(int worker) {
        while (!stops) {
            try {
                if (choice("group").equals("share")) {
                    copyByShare();
                } else {
                    copyOnce(worker);
                }
            } catch (KafkaException | IllegalStateException error) {
                errors.add(error.toString());
            } catch (Exception error) {
                errors.add("unexpected " + error);
            }
        }
    }

    private List<String> topics() {
        List<String> found = new ArrayList<>(List.of(job.get("source").asText()));
        job.get("also_read").forEach(each -> found.add(each.asText()));
        return found;
    }

    private Map<String, Object> reading() {
        Map<String, Object> settings = settings();
        settings.put("group.id", job.get("name").asText());
        return settings;
    }

    private void copyOnce(int worker) throws Exception {
        Map<String, Object> settings = reading();
        settings.put("group.protocol", choice("group"));
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", choice("isolation"));
        settings.put("enable.auto.commit", false);
        settings.put("max.poll.records", 40);
        if (choice("group").equals("classic")) {
            settings.put("session.timeout.ms", 6000);
            settings.put("heartbeat.interval.ms", 1000);
        }
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<byte[], byte[]>(settings, bytes, bytes);
                var producer = producer("copier-" + worker)) {
            consumer.subscribe(topics());
            while (!stops) {
                ConsumerRecords<byte[], byte[]> found = consumer.poll(IDLE);
                if (found.isEmpty()) {
                    continue;
                }
                if (isTransactional()) {
                    producer.beginTransaction();
                }
                List<Future<RecordMetadata>> sent = send(found, producer);
                if (isTransactional()) {
                    producer.sendOffsetsToTransaction(ends(found), consumer.groupMetadata());
                    producer.commitTransaction();
                    continue;
                }
                producer.flush();
                for (Future<RecordMetadata> each : sent) {
                    each.get();
                }
                consumer.commitSync(ends(found));
            }
        }
    }

    private void copyByShare() throws Exception {
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaShareConsumer<byte[], byte[]>(reading(), bytes, bytes);
                var producer = producer("copier")) {
            consumer.subscribe(topics());
            while (!stops) {
                ConsumerRecords<byte[], byte[]> found = consumer.poll(IDLE);
                List<Future<RecordMetadata>> sent = send(found, producer);
                producer.flush();
                for (Future<RecordMetadata> each : sent) {
                    each.get();
                }
                consumer.commitSync();
            }
        }
    }

    private List<Future<RecordMetadata>> send(
            ConsumerRecords<byte[], byte[]> found, KafkaProducer<byte[], byte[]> producer) {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        String target = job.get("target").asText();
        for (ConsumerRecord<byte[], byte[]> each : found.records(job.get("source").asText())) {
            sent.add(producer.send(new ProducerRecord<>(target, each.partition(), each.key(), each.value())));
        }
        return sent;
    }

    private static Map<TopicPartition, OffsetAndMetadata> ends(ConsumerRecords<byte[], byte[]> found) {
        return found.nextOffsets();
    }
}
