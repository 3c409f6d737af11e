// Cleans a log with Apache Kafka's own cleaner. A line is the wall time at which the log is opened,
// its segments (base offset=hex of its log) and rounds (first dirty offset and time), all between
// semicolons; the answer says after each round which batches are there.
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ScheduledFuture;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.*;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class CleanLog {
    static class Never implements Scheduler {
        public void startup() { }
        public void shutdown() { }
        public void resizeThreadPool(int size) { }
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            return null;
        }
    }

    static Time stopped(long now) {
        return (Time) Proxy.newProxyInstance(CleanLog.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, arguments) -> {
                if (method.getName().equals("milliseconds"))
                    return now;
                try {
                    return method.invoke(Time.SYSTEM, arguments);
                } catch (InvocationTargetException error) {
                    throw error.getCause();
                }
            });
    }

    static String hex(ByteBuffer buffer) {
        if (buffer == null)
            return "null";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    static String describe(UnifiedLog log) {
        List<String> batches = new ArrayList<>();
        for (LogSegment segment : log.logSegments()) {
            for (RecordBatch batch : segment.log().batches()) {
                StringBuilder said = new StringBuilder(String.join(" ",
                    batch.compressionType().name, "" + batch.baseOffset(), "" + batch.lastOffset(),
                    "" + batch.maxTimestamp(), "" + batch.producerId(), "" + batch.producerEpoch(),
                    "" + batch.baseSequence(), "" + batch.isTransactional(), "" + batch.isControlBatch(),
                    "" + batch.deleteHorizonMs().orElse(-1)));
                for (Record record : batch)
                    said.append(" ").append(record.offset()).append(",").append(record.timestamp())
                        .append(",").append(hex(record.key())).append(",").append(hex(record.value()));
                batches.add(said.toString());
            }
        }
        for (LogSegment segment : log.logSegments()) {
            for (AbortedTxn each : segment.txnIndex().allAbortedTxns())
                batches.add("aborted " + each.producerId() + " " + each.firstOffset() + " " + each.lastOffset()
                    + " " + each.lastStableOffset());
        }
        return String.join("|", batches);
    }

    static UnifiedLog open(File directory, long now) throws Exception {
        LogConfig config = new LogConfig(Map.of(
            "cleanup.policy", "compact", "delete.retention.ms", "86400000", "internal.segment.bytes", "600",
            "index.interval.bytes", "100", "segment.index.bytes", "4096"));
        UnifiedLog log = UnifiedLog.create(directory, config, 0L, 0L, new Never(), new BrokerTopicStats(false),
            stopped(now), 900_000, new ProducerStateManagerConfig(86_400_000, false), 600_000,
            new LogDirFailureChannel(1), false, Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        return log;
    }

    static String answer(String line) throws Exception {
        String[] parts = line.split(";");
        Path scratch = Files.createTempDirectory("clean-log");
        File directory = new File(scratch.toFile(), "t-0");
        directory.mkdirs();
        long now = Long.parseLong(parts[0]);
        List<String> answers = new ArrayList<>();
        UnifiedLog log = null;
        for (int at = 1; at < parts.length; at++) {
            String[] words = parts[at].split("[= ]", -1);
            if (parts[at].contains("=")) {
                Files.write(new File(directory, String.format("%020d.log", Long.parseLong(words[0]))).toPath(),
                    HexFormat.of().parseHex(words[1]));
                continue;
            }
            if (log == null)
                log = open(directory, now);
            long dirty = Long.parseLong(words[0]);
            long limit = Math.min(log.lastStableOffset(), log.activeSegment().baseOffset());
            LogToClean job = new LogToClean(log, dirty, Math.max(dirty, limit), false);
            Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(1 << 20), 1 << 16, 1 << 16, 0.9,
                new Throttler(Double.MAX_VALUE, 1000, "throttler", "bytes", Time.SYSTEM), Time.SYSTEM,
                partition -> { });
            long end = cleaner.doClean(job, Long.parseLong(words[1])).getKey();
            answers.add(end + "|" + describe(log));
        }
        log.closeHandlers();
        try (Stream<Path> made = Files.walk(scratch)) {
            for (Path path : made.sorted(Comparator.reverseOrder()).toList())
                Files.delete(path);
        }
        return String.join(";", answers);
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine())
            System.out.println(answer(line));
    }
}
