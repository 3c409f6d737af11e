import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;
import org.apache.kafka.connect.mirror.MirrorUtils;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;
import org.apache.kafka.connect.storage.MemoryOffsetBackingStore;
import org.apache.kafka.connect.storage.OffsetStorageReaderImpl;

/** For each line `bootstrap alias group topic`: what Java's MirrorMaker reads on the target. */
public class ReadMirror {
    public static void main(String[] arguments) throws Exception {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            Map<String, Object> target = new HashMap<>();
            target.put("bootstrap.servers", words[0]);
            Map<TopicPartition, OffsetAndMetadata> offsets = RemoteClusterUtils.translateOffsets(
                target, words[1], words[2], Duration.ofSeconds(30));
            Map<String, Long> shown = new TreeMap<>();
            offsets.forEach((where, at) -> shown.put(where.toString(), at.offset()));
            System.out.println(
                shown + " " + new TreeSet<>(RemoteClusterUtils.upstreamClusters(target))
                + " " + new TreeSet<>(RemoteClusterUtils.heartbeatTopics(target))
                + " " + copiedTo(target, words[1], words[3]));
        }
        System.exit(0);
    }

    /** The stored offsets of both partitions, as Java's MirrorSourceTask looks them up. */
    private static List<Long> copiedTo(Map<String, Object> target, String alias, String topic)
            throws Exception {
        MemoryOffsetBackingStore store = new MemoryOffsetBackingStore() {
            @Override
            public Set<Map<String, Object>> connectorPartitions(String connector) {
                return Set.of();
            }
        };
        store.start();
        store.set(records(target, "mm2-offsets." + alias + ".internal"), null).get();
        OffsetStorageReaderImpl stored = new OffsetStorageReaderImpl(
            store, "MirrorSourceConnector", json(true), json(false));
        Method wrap = opened("wrapPartition", TopicPartition.class, String.class);
        Method unwrap = opened("unwrapOffset", Map.class);
        List<Long> found = new ArrayList<>();
        for (int number = 0; number < 2; number++) {
            @SuppressWarnings("unchecked")
            Map<String, Object> partition =
                (Map<String, Object>) wrap.invoke(null, new TopicPartition(topic, number), alias);
            Map<String, Object> offset = stored.offset(partition);
            if (offset != null) {
                new MirrorSourceConnector().alterOffsets(Map.of(), Map.of(partition, offset));
            }
            found.add((Long) unwrap.invoke(null, offset));
        }
        store.stop();
        return found;
    }

    private static Method opened(String name, Class<?>... parameters) throws Exception {
        Method method = MirrorUtils.class.getDeclaredMethod(name, parameters);
        method.setAccessible(true);
        return method;
    }

    private static JsonConverter json(boolean isKey) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", "false"), isKey);
        return converter;
    }

    private static Map<ByteBuffer, ByteBuffer> records(Map<String, Object> target, String topic) {
        Map<ByteBuffer, ByteBuffer> found = new HashMap<>();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                target, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> places = new ArrayList<>();
            consumer.partitionsFor(topic).forEach(
                each -> places.add(new TopicPartition(topic, each.partition())));
            consumer.assign(places);
            consumer.seekToBeginning(places);
            Map<TopicPartition, Long> ends = consumer.endOffsets(places);
            while (ends.entrySet().stream()
                    .anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
                consumer.poll(Duration.ofMillis(100)).forEach(record -> found.put(
                    ByteBuffer.wrap(record.key()),
                    record.value() == null ? null : ByteBuffer.wrap(record.value())));
            }
        }
        return found;
    }
}
