import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Arguments: bootstrap servers, source, target, name. Copies in transactions until it is killed; an
 *  error aborts the transaction, and both clients begin again at what is committed. */
public class TransactionalCopier {
    public static void main(String[] words) throws InterruptedException {
        while (true) {
            try {
                copyAll(words[0], words[1], words[2], words[3]);
            } catch (KafkaException | IllegalStateException failure) {
                System.out.println("begins again after: " + failure);
                Thread.sleep(200);
            }
        }
    }

    private static void copyAll(String servers, String source, String target, String name) {
        Map<String, Object> reading = Map.of(
            "bootstrap.servers", servers,
            "group.id", target,
            "group.protocol", "consumer",
            "auto.offset.reset", "earliest",
            "isolation.level", "read_committed",
            "enable.auto.commit", false,
            "max.poll.records", 50);
        Map<String, Object> writing = Map.of(
            "bootstrap.servers", servers,
            "transactional.id", name,
            "transaction.timeout.ms", 20000);
        var from = new ByteArrayDeserializer();
        var to = new ByteArraySerializer();
        try (var consumer = new KafkaConsumer<byte[], byte[]>(reading, from, from);
                var producer = new KafkaProducer<byte[], byte[]>(writing, to, to)) {
            producer.initTransactions();
            consumer.subscribe(List.of(source));
            while (true) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
                if (!records.isEmpty()) {
                    copy(records, target, consumer, producer);
                }
            }
        }
    }

    private static void copy(
            ConsumerRecords<byte[], byte[]> records, String target,
            KafkaConsumer<byte[], byte[]> consumer, KafkaProducer<byte[], byte[]> producer) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        producer.beginTransaction();
        for (ConsumerRecord<byte[], byte[]> each : records) {
            producer.send(new ProducerRecord<>(target, each.partition(), null, each.value()));
            offsets.put(
                new TopicPartition(each.topic(), each.partition()),
                new OffsetAndMetadata(each.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        producer.commitTransaction();
    }
}
