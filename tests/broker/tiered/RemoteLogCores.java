// Apache Kafka's own records, states, partitioner and cache of remote segments, driven line by line:
// a line is a kind and its steps between semicolons, the answer has one part for each step.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataCache;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataTopicPartitioner;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogSegmentMetadataSnapshot;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.*;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;

public class RemoteLogCores {
    static final TopicIdPartition WHERE = new TopicIdPartition(new Uuid(0, 7), new TopicPartition("t", 0));

    static Uuid uuid(String hex) {
        ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(hex));
        return new Uuid(bytes.getLong(), bytes.getLong());
    }

    static String hex(Uuid id) {
        ByteBuffer bytes = ByteBuffer.allocate(16);
        bytes.putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits());
        return HexFormat.of().formatHex(bytes.array());
    }

    static String where(TopicIdPartition each) {
        return each.topic() + " " + hex(each.topicId()) + " " + each.partition();
    }

    static String epochs(Map<Integer, Long> each) {
        return each.entrySet().stream().map(e -> e.getKey() + "@" + e.getValue()).collect(Collectors.joining(","));
    }

    static String custom(Optional<CustomMetadata> each) {
        return each.map(c -> "x" + HexFormat.of().formatHex(c.value())).orElse("none");
    }

    static String facts(RemoteLogMetadata each) {
        String by = each.brokerId() + " " + each.eventTimestampMs() + " ";
        if (each instanceof RemoteLogSegmentMetadata s)
            return "segment " + where(s.remoteLogSegmentId().topicIdPartition()) + " " + hex(s.remoteLogSegmentId().id())
                + " " + by + s.startOffset() + " " + s.endOffset() + " " + s.maxTimestampMs() + " " + s.segmentSizeInBytes()
                + " " + epochs(s.segmentLeaderEpochs()) + " " + custom(s.customMetadata()) + " " + s.state().id()
                + " " + s.isTxnIdxEmpty();
        if (each instanceof RemoteLogSegmentMetadataUpdate u)
            return "update " + where(u.remoteLogSegmentId().topicIdPartition()) + " " + hex(u.remoteLogSegmentId().id())
                + " " + by + custom(u.customMetadata()) + " " + u.state().id();
        if (each instanceof RemotePartitionDeleteMetadata d)
            return "deletion " + where(d.topicIdPartition()) + " " + by + d.state().id();
        RemoteLogSegmentMetadataSnapshot s = (RemoteLogSegmentMetadataSnapshot) each;
        return "snapshot " + hex(s.segmentId()) + " " + by + s.startOffset() + " " + s.endOffset() + " "
            + s.maxTimestampMs() + " " + s.segmentSizeInBytes() + " " + epochs(s.segmentLeaderEpochs()) + " "
            + custom(s.customMetadata()) + " " + s.state().id() + " " + s.isTxnIdxEmpty();
    }

    static String record(String hex) {
        RemoteLogMetadataSerde serde = new RemoteLogMetadataSerde();
        RemoteLogMetadata read = serde.deserialize(HexFormat.of().parseHex(hex));
        return facts(read) + " " + HexFormat.of().formatHex(serde.serialize(read));
    }

    static String partition(String step) {
        String[] words = step.split(" ");
        TopicIdPartition where = new TopicIdPartition(uuid(words[0]), new TopicPartition("t", Integer.parseInt(words[1])));
        return "" + new RemoteLogMetadataTopicPartitioner(Integer.parseInt(words[2])).metadataPartition(where);
    }

    static String states(String kind) {
        List<String> valid = new ArrayList<>();
        for (int from = -1; from < 4; from++)
            for (int to = 0; to < 4; to++)
                if (kind.equals("segment")
                        ? from != to && RemoteLogSegmentState.isValidTransition(
                            from < 0 ? null : RemoteLogSegmentState.forId((byte) from), RemoteLogSegmentState.forId((byte) to))
                        : from < 3 && to < 3 && from != to && RemotePartitionDeleteState.isValidTransition(
                            from < 0 ? null : RemotePartitionDeleteState.forId((byte) from), RemotePartitionDeleteState.forId((byte) to)))
                    valid.add(from + ">" + to);
        return String.join(" ", valid);
    }

    static Object call(RemoteLogMetadataCache cache, String name, Object... arguments) throws Throwable {
        for (Method method : RemoteLogMetadataCache.class.getDeclaredMethods())
            if (method.getName().equals(name) && method.getParameterCount() == arguments.length) {
                method.setAccessible(true);
                try {
                    return method.invoke(cache, arguments);
                } catch (InvocationTargetException error) {
                    throw error.getCause();
                }
            }
        throw new IllegalArgumentException(name);
    }

    static String found(Object each) {
        Optional<?> optional = (Optional<?>) each;
        return optional.map(s -> "" + ((RemoteLogSegmentMetadata) s).remoteLogSegmentId().id().getLeastSignificantBits()).orElse("-");
    }

    static String cached(RemoteLogMetadataCache cache, String step) throws Throwable {
        String[] words = step.split(" ");
        long[] numbers = new long[4];
        for (int at = 1; at < Math.min(4, words.length); at++)
            numbers[at] = Long.parseLong(words[at]);
        RemoteLogSegmentId id = new RemoteLogSegmentId(WHERE, new Uuid(1, numbers[1]));
        switch (words[0]) {
            case "start" -> {
                Map<Integer, Long> epochs = new TreeMap<>();
                for (String pair : words[4].split(","))
                    epochs.put(Integer.parseInt(pair.split("@")[0]), Long.parseLong(pair.split("@")[1]));
                call(cache, "addCopyInProgressSegment", new RemoteLogSegmentMetadata(
                    id, numbers[2], numbers[3], 1, 1, 1, 1, epochs, words[5].equals("true")));
                return "ok";
            }
            case "state" -> {
                RemoteLogSegmentState state = RemoteLogSegmentState.forId((byte) numbers[2]);
                try {
                    call(cache, "updateRemoteLogSegmentMetadata",
                        new RemoteLogSegmentMetadataUpdate(id, 1, Optional.empty(), state, 1));
                    return "ok";
                } catch (RemoteResourceNotFoundException | IllegalStateException | IllegalArgumentException error) {
                    return "refused";
                }
            }
            case "find" -> {
                return found(call(cache, "remoteLogSegmentMetadata", (int) numbers[1], numbers[2]));
            }
            case "highest" -> {
                Optional<?> highest = (Optional<?>) call(cache, "highestOffsetForEpoch", (int) numbers[1]);
                return highest.map(Object::toString).orElse("-");
            }
            default -> throw new IllegalArgumentException(step);
        }
    }

    static String answer(String kind, List<String> steps) throws Throwable {
        List<String> answers = new ArrayList<>();
        RemoteLogMetadataCache cache = new RemoteLogMetadataCache();
        for (String step : steps)
            answers.add(switch (kind) {
                case "record", "snapshot" -> record(step);
                case "partition" -> partition(step);
                case "states" -> states(step);
                case "cache", "overlaps" -> cached(cache, step);
                default -> throw new IllegalArgumentException(kind);
            });
        return String.join(";", answers);
    }

    public static void main(String[] arguments) throws Throwable {
        PrintStream answers = System.out;
        System.setOut(System.err); // the cache logs each record that it drops
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            int at = line.indexOf(':');
            answers.println(answer(line.substring(0, at), List.of(line.substring(at + 1).split(";"))));
        }
    }
}
