// Apache Kafka's own producer state, transaction index and leader epochs, driven line by line: a
// line is a kind and its steps between semicolons, the answer has one part for each step.
import java.io.File;
import java.io.InputStreamReader;
import java.io.BufferedReader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledFuture;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.*;

public class LogCores {
    static final TopicPartition PARTITION = new TopicPartition("t", 0);
    static final long EXPIRATION_MS = 1000;

    static class AtOnce implements Scheduler {
        public void startup() { }
        public void shutdown() { }
        public void resizeThreadPool(int size) { }
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            task.run();
            return null;
        }
    }

    static final List<Path> MADE = new ArrayList<>();

    static File scratch() throws Exception {
        Path made = Files.createTempDirectory("log-cores");
        MADE.add(made);
        return made.toFile();
    }

    static void clear() throws Exception {
        for (Path directory : MADE) {
            for (File file : directory.toFile().listFiles())
                file.delete();
            Files.delete(directory);
        }
        MADE.clear();
    }

    static String hex(File file) throws Exception {
        return file.exists() ? HexFormat.of().formatHex(Files.readAllBytes(file.toPath())) : "";
    }

    static ProducerStateManager manager(File directory) throws Exception {
        return new ProducerStateManager(
            PARTITION, directory, 60_000, new ProducerStateManagerConfig((int) EXPIRATION_MS, false), Time.SYSTEM);
    }

    static String stable(ProducerStateManager state) {
        return state.firstUnstableOffset().map(each -> each.messageOffset).orElse(-1L)
            + "/" + state.firstUndecidedOffset().orElse(-1L);
    }

    static String append(ProducerStateManager state, String[] words) {
        AppendOrigin origin = AppendOrigin.valueOf(words[1]);
        short version = Short.parseShort(words[2]);
        ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(words[3]));
        RecordBatch batch = MemoryRecords.readableRecords(bytes).batches().iterator().next();
        if (origin == AppendOrigin.CLIENT) {
            Optional<ProducerStateEntry> last = state.lastEntry(batch.producerId());
            if (last.isPresent() && last.get().producerEpoch() == batch.producerEpoch()) {
                for (BatchMetadata known : last.get().batchMetadata()) {
                    if (known.firstSeq() == batch.baseSequence() && known.lastSeq() == batch.lastSequence())
                        return "duplicate " + known.firstOffset() + " " + known.lastOffset() + " " + known.timestamp();
                }
            }
        }
        ProducerAppendInfo info = state.prepareUpdate(batch.producerId(), origin);
        Optional<CompletedTxn> completed;
        try {
            completed = info.append(batch, Optional.empty(), version);
        } catch (ApiException error) {
            return Errors.forException(error).name();
        }
        state.update(info);
        String answer = "ok";
        if (completed.isPresent()) {
            CompletedTxn txn = completed.get();
            if (txn.isAborted())
                answer = "aborted " + txn.producerId() + " " + txn.firstOffset() + " " + txn.lastOffset()
                    + " " + state.lastStableOffset(txn);
            state.completeTxn(txn);
        }
        state.updateMapEndOffset(batch.lastOffset() + 1);
        return answer;
    }

    static String producers(List<String> steps) throws Exception {
        File directory = scratch();
        ProducerStateManager state = manager(directory);
        List<String> answers = new ArrayList<>();
        for (String step : steps) {
            String[] words = step.split(" ");
            String answer = "ok";
            switch (words[0]) {
                case "batch" -> answer = append(state, words);
                case "replicated" -> state.onHighWatermarkUpdated(Long.parseLong(words[1]));
                case "expire" -> state.removeExpiredProducers(Long.parseLong(words[1]));
                case "restart" -> {
                    long end = state.mapEndOffset();
                    state.takeSnapshot();
                    answer = hex(new File(directory, String.format("%020d.snapshot", end)));
                    state = manager(directory);
                    state.truncateAndReload(0, end, Long.parseLong(words[1]));
                }
                default -> throw new IllegalArgumentException(step);
            }
            answers.add(answer + " " + stable(state));
        }
        return String.join(";", answers);
    }

    static String snapshot(List<String> steps) throws Exception {
        Path path = new File(scratch(), "0.snapshot").toPath();
        Files.write(path, HexFormat.of().parseHex(steps.get(0)));
        try {
            return ProducerStateManager.readSnapshot(path.toFile()).stream().map(entry ->
                entry.producerId() + " " + entry.producerEpoch() + " " + entry.coordinatorEpoch() + " "
                    + entry.lastTimestamp() + " " + entry.currentTxnFirstOffset().orElse(-1L) + " "
                    + entry.firstDataOffset() + " " + entry.lastDataOffset()).collect(Collectors.joining(","));
        } catch (CorruptSnapshotException error) {
            return "corrupt";
        }
    }

    static String aborted(List<AbortedTxn> transactions) {
        return transactions.stream().map(each -> each.producerId() + " " + each.firstOffset() + " "
            + each.lastOffset() + " " + each.lastStableOffset()).collect(Collectors.joining(","));
    }

    static String index(List<String> steps) throws Exception {
        File file = new File(scratch(), "0.txnindex");
        TransactionIndex index = new TransactionIndex(0, file);
        List<String> answers = new ArrayList<>();
        for (String step : steps) {
            String[] words = step.split(" ");
            long[] numbers = new long[words.length];
            for (int at = 1; at < words.length; at++)
                numbers[at] = Long.parseLong(words[at]);
            switch (words[0]) {
                case "append" -> {
                    index.append(new AbortedTxn(numbers[1], numbers[2], numbers[3], numbers[4]));
                    answers.add(hex(file));
                }
                case "collect" -> {
                    TxnIndexSearchResult found = index.collectAbortedTxns(numbers[1], numbers[2]);
                    answers.add(aborted(found.abortedTransactions()) + " " + found.isComplete());
                }
                case "truncate" -> {
                    index.truncateTo(numbers[1]);
                    index.close();
                    index = new TransactionIndex(0, file);
                    answers.add(hex(file));
                }
                default -> throw new IllegalArgumentException(step);
            }
        }
        return String.join(";", answers);
    }

    static String epochs(List<String> steps) throws Exception {
        File directory = scratch();
        LogDirFailureChannel failures = new LogDirFailureChannel(1);
        LeaderEpochCheckpointFile file = new LeaderEpochCheckpointFile(LeaderEpochCheckpointFile.newFile(directory), failures);
        LeaderEpochFileCache cache = new LeaderEpochFileCache(PARTITION, file, new AtOnce());
        List<String> answers = new ArrayList<>();
        for (String step : steps) {
            String[] words = step.split(" ");
            int epoch = Integer.parseInt(words[1]);
            switch (words[0]) {
                case "assign" -> cache.assign(epoch, Long.parseLong(words[2]));
                case "from-end" -> cache.truncateFromEndAsyncFlush(epoch);
                case "from-start" -> cache.truncateFromStartAsyncFlush(epoch);
                case "end-of" -> {
                    Map.Entry<Integer, Long> end = cache.endOffsetFor(epoch, Long.parseLong(words[2]));
                    answers.add(end.getKey() + " " + end.getValue());
                    continue;
                }
                case "epoch-at" -> {
                    answers.add("" + cache.epochForOffset(epoch).orElse(-1));
                    continue;
                }
                default -> throw new IllegalArgumentException(step);
            }
            Path path = new File(directory, "leader-epoch-checkpoint").toPath();
            answers.add(Files.size(path) > 0 ? Files.readString(path).replace("\n", ",") : "0,0,");
        }
        return String.join(";", answers);
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            int at = line.indexOf(':');
            List<String> steps = List.of(line.substring(at + 1).split(";"));
            System.out.println(switch (line.substring(0, at)) {
                case "producers" -> producers(steps);
                case "snapshot" -> snapshot(steps);
                case "index" -> index(steps);
                case "epochs" -> epochs(steps);
                default -> throw new IllegalArgumentException(line);
            });
            clear();
        }
    }
}
