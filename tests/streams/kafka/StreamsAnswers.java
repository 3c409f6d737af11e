import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Deque;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Reads scripts as JSON, one a line, and answers what Kafka Streams' TopologyTestDriver gives for
 * each input. The language of topologies is that of language.py, built with Kafka's own DSL. State
 * caches are off, and nothing waits for a wall clock between two looks for closed windows.
 */
@SuppressWarnings({"unchecked", "rawtypes"})
public final class StreamsAnswers {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        System.setOut(new PrintStream(java.io.OutputStream.nullOutputStream()));
        File state = Files.createTempDirectory("streams-answers").toFile();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        int index = 0;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("outputs", run(JSON.readTree(line), new File(state, "" + index++)));
            } catch (Throwable failure) {
                answer.removeAll();
                Throwable cause = failure;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                answer.put("failed", cause.getClass().getSimpleName() + ": " + cause.getMessage());
            }
            out.println(JSON.writeValueAsString(answer));
        }
        out.flush();
        try (Stream<java.nio.file.Path> paths = Files.walk(state.toPath())) {
            paths.sorted(Comparator.reverseOrder()).map(java.nio.file.Path::toFile).forEach(File::delete);
        }
    }

    // --- running ------------------------------------------------------------------------------

    private static ArrayNode run(JsonNode script, File state) {
        StreamsAnswers built = new StreamsAnswers();
        for (JsonNode line : script.get("topology")) {
            built.statement(line.asText());
        }
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        config.put(StreamsConfig.STATE_DIR_CONFIG, state.getPath());
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        config.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L);
        ArrayNode answers = JSON.createArrayNode();
        try (TopologyTestDriver driver =
                new TopologyTestDriver(built.builder.build(config), config, Instant.EPOCH)) {
            for (JsonNode line : script.get("inputs")) {
                give(driver, line.asText().split(" "));
                answers.add(built.outputs(driver));
            }
        }
        return answers;
    }

    private static void give(TopologyTestDriver driver, String[] words) {
        if (words[0].equals("clock")) {
            driver.advanceWallClockTime(Duration.ofMillis(Long.parseLong(words[1])));
            return;
        }
        TestInputTopic<String, String> topic =
                driver.createInputTopic(words[0], new StringSerializer(), new StringSerializer());
        Headers headers = new RecordHeaders();
        for (int index = 4; index < words.length; index++) {
            headers.add(words[index].substring(1), new byte[0]);
        }
        long time = Long.parseLong(words[3].substring(1));
        topic.pipeInput(new TestRecord<>(given(words[1]), given(words[2]), headers, time));
    }

    private static String given(String word) {
        return word.equals("null") ? null : word;
    }

    private ArrayNode outputs(TopologyTestDriver driver) {
        ArrayNode found = JSON.createArrayNode();
        for (String name : sinks) {
            if (!driver.producedTopicNames().contains(name)) {
                continue;
            }
            TestOutputTopic<byte[], byte[]> topic = driver.createOutputTopic(
                    name, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            while (!topic.isEmpty()) {
                TestRecord<byte[], byte[]> record = topic.readRecord();
                StringBuilder text = new StringBuilder(name);
                text.append(' ').append(shown(name, record.key()));
                text.append(' ').append(shown("", record.value()));
                text.append(" @").append(record.timestamp());
                for (Header header : record.headers()) {
                    text.append(" +").append(header.key());
                }
                found.add(text.toString());
            }
        }
        return found;
    }

    private static String shown(String topic, byte[] data) {
        if (data == null) {
            return "null";
        }
        boolean isRaw = topic.startsWith("raw");
        return isRaw ? HexFormat.of().formatHex(data) : new String(data, StandardCharsets.UTF_8);
    }

    // --- topologies ---------------------------------------------------------------------------

    /** A stream, a table or a group, with the serdes of its records and how long to retain them. */
    private record Node(Object it, Serde key, Serde value, String retain) {
        Node with(Object other) {
            return new Node(other, key, value, retain);
        }

        Node with(Object other, Serde newKey, Serde newValue) {
            return new Node(other, newKey, newValue, retain);
        }
    }

    private final StreamsBuilder builder = new StreamsBuilder();
    private final Map<String, Node> names = new LinkedHashMap<>();
    private final TreeSet<String> sinks = new TreeSet<>();
    private int stores = 0;

    private void statement(String line) {
        String[] sides = line.split(" = ", 2);
        String text = sides[sides.length - 1];
        Object found = null;
        for (String step : text.split(" \\| ")) {
            Deque<String> words = new ArrayDeque<>(Arrays.asList(step.trim().split(" ")));
            String operation = words.remove();
            found = found == null
                    ? source(operation, words)
                    : applied((Node) found, operation, words);
        }
        if (sides.length == 1) {
            return;
        }
        String[] given = sides[0].split(", ");
        for (int index = 0; index < given.length; index++) {
            names.put(given[index], given.length == 1 ? (Node) found : ((Node[]) found)[index]);
        }
    }

    private String store() {
        return "store-" + stores++;
    }

    private Materialized kept(Serde key, Serde value) {
        return Materialized.as(store()).withKeySerde(key).withValueSerde(value);
    }

    private Object source(String operation, Deque<String> words) {
        Serde<String> text = Serdes.String();
        Consumed<String, String> consumed = Consumed.with(text, text);
        switch (operation) {
            case "stream":
                return node(builder.stream(Arrays.asList(words.remove().split(",")), consumed));
            case "table":
                String topic = words.remove();
                if (words.isEmpty()) {
                    return node(builder.table(topic, consumed, kept(text, text)));
                }
                if (words.remove().equals("storeless")) {
                    return node(builder.table(topic, consumed));
                }
                Duration history = Duration.ofMillis(Long.parseLong(words.remove()));
                Materialized versioned = Materialized.as(
                        Stores.persistentVersionedKeyValueStore(store(), history));
                return node(builder.table(topic, consumed, versioned.withKeySerde(text).withValueSerde(text)));
            case "global":
                return node(builder.globalTable(words.remove(), consumed, kept(text, text)));
            default:
                return names.get(operation);
        }
    }

    private static Node node(Object it) {
        return new Node(it, Serdes.String(), Serdes.String(), "");
    }

    private Object applied(Node node, String operation, Deque<String> words) {
        Object it = node.it();
        if (operation.equals("to") || operation.equals("raw")) {
            sink(node, operation, words.remove());
            return node;
        }
        if (it instanceof KStream stream) {
            return onStream(node, stream, operation, words);
        }
        if (it instanceof KTable table) {
            return onTable(node, table, operation, words);
        }
        if (it instanceof KGroupedTable grouped) {
            return onGroupedTable(node, grouped, operation);
        }
        return onGrouped(node, operation, words);
    }

    private void sink(Node node, String operation, String topic) {
        KStream stream = node.it() instanceof KTable table ? table.toStream() : (KStream) node.it();
        sinks.add(topic);
        if (operation.equals("raw")) {
            stream.to(topic, Produced.with(node.key(), node.value()));
            return;
        }
        stream.map((key, value) -> KeyValue.pair(text(key), text(value)))
                .to(topic, Produced.with(Serdes.String(), Serdes.String()));
    }

    private static String text(Object value) {
        if (value instanceof Windowed windowed) {
            long end = windowed.window().end();
            String last = end == Long.MAX_VALUE ? "~" : "" + end;
            return windowed.key() + "[" + windowed.window().start() + "," + last + "]";
        }
        return value == null ? null : value.toString();
    }

    private Object onStream(Node node, KStream stream, String operation, Deque<String> words) {
        Serde string = Serdes.String();
        switch (operation) {
            case "map-values":
                return node.with(stream.mapValues(mapper(words)), node.key(), string);
            case "flat-map-values":
                ValueMapperWithKey parts = mapper(words);
                return node.with(stream.flatMapValues(
                        (key, value) -> (Iterable) parts.apply(key, value)), node.key(), string);
            case "filter":
                return node.with(stream.filter(predicate(words.remove())));
            case "filter-not":
                return node.with(stream.filterNot(predicate(words.remove())));
            case "select-key": {
                ValueMapperWithKey chosen = mapper(words);
                KeyValueMapper by = (key, value) -> chosen.apply(key, value);
                return node.with(stream.selectKey(by), string, node.value());
            }
            case "map": {
                ValueMapperWithKey newKey = mapper(words);
                ValueMapperWithKey newValue = mapper(words);
                KeyValueMapper pair = (key, value) ->
                        KeyValue.pair(newKey.apply(key, value), newValue.apply(key, value));
                return node.with(stream.map(pair), string, string);
            }
            case "flat-map": {
                ValueMapperWithKey several = mapper(words);
                KeyValueMapper pairs = (key, value) -> {
                    List<KeyValue> found = new ArrayList<>();
                    for (Object part : (Iterable) several.apply(key, value)) {
                        found.add(KeyValue.pair(part, value));
                    }
                    return found;
                };
                return node.with(stream.flatMap(pairs), string, node.value());
            }
            case "peek":
                return node.with(stream.peek((key, value) -> {}));
            case "merge":
                return node.with(stream.merge((KStream) names.get(words.remove()).it()));
            case "branch":
                return branches(node, stream, words);
            case "repartition":
                return node.with(stream.repartition(
                        Repartitioned.with(node.key(), node.value()).withName(store())));
            case "punctuate":
            case "changed":
                return process(node, stream, operation, words);
            case "to-table":
                return node.with(stream.toTable(kept(node.key(), node.value())));
            case "group":
                return node.with(stream.groupByKey(
                        Grouped.with(store(), node.key(), node.value())));
            case "group-by": {
                ValueMapperWithKey group = mapper(words);
                KeyValueMapper by = (key, value) -> group.apply(key, value);
                return node.with(stream.groupBy(by, Grouped.with(store(), string, node.value())),
                        string, node.value());
            }
            default:
                return joined(node, stream, operation, words);
        }
    }

    private Node[] branches(Node node, KStream stream, Deque<String> words) {
        BranchedKStream split = stream.split(Named.as("b-"));
        int count = words.size();
        for (int index = 0; index < count; index++) {
            split = split.branch(predicate(words.remove()), Branched.as("" + index));
        }
        Map<String, KStream> found = split.defaultBranch(Branched.as("" + count));
        Node[] nodes = new Node[count + 1];
        for (int index = 0; index <= count; index++) {
            nodes[index] = node.with(found.get("b-" + index));
        }
        return nodes;
    }

    private Node process(Node node, KStream stream, String operation, Deque<String> words) {
        String name = store();
        builder.addStateStore(Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore(name), Serdes.String(), Serdes.String()));
        if (operation.equals("changed")) {
            return node.with(stream.process(() -> new Changed(name), name));
        }
        PunctuationType type = words.remove().equals("wall")
                ? PunctuationType.WALL_CLOCK_TIME : PunctuationType.STREAM_TIME;
        Duration interval = Duration.ofMillis(Long.parseLong(words.remove()));
        return node.with(stream.process(() -> new Ticking(name, type, interval), name));
    }

    /** Passes on what is not the last value of its key. */
    private static final class Changed implements Processor<String, String, String, String> {
        private final String name;
        private ProcessorContext<String, String> context;
        private KeyValueStore<String, String> store;

        Changed(String name) {
            this.name = name;
        }

        @Override
        public void init(ProcessorContext<String, String> given) {
            context = given;
            store = given.getStateStore(name);
        }

        @Override
        public void process(Record<String, String> record) {
            String before = store.get(record.key());
            store.put(record.key(), record.value());
            if (before == null ? record.value() != null : !before.equals(record.value())) {
                context.forward(record);
            }
        }
    }

    /** Gathers the values of each key, and gives them out at each punctuation. */
    private static final class Ticking implements Processor<String, String, String, String> {
        private final String name;
        private final PunctuationType type;
        private final Duration interval;
        private KeyValueStore<String, String> store;

        Ticking(String name, PunctuationType type, Duration interval) {
            this.name = name;
            this.type = type;
            this.interval = interval;
        }

        @Override
        public void init(ProcessorContext<String, String> context) {
            store = context.getStateStore(name);
            context.schedule(interval, type, time -> {
                List<KeyValue<String, String>> rows = new ArrayList<>();
                try (var iterator = store.all()) {
                    iterator.forEachRemaining(rows::add);
                }
                context.forward(new Record<>("tick", "" + rows.size(), time));
                for (KeyValue<String, String> row : rows) {
                    store.delete(row.key);
                    context.forward(new Record<>(row.key, row.value, time));
                }
            });
        }

        @Override
        public void process(Record<String, String> record) {
            String before = store.get(record.key());
            store.put(record.key(), (before == null ? "" : before) + record.value());
        }
    }

    // --- joins --------------------------------------------------------------------------------

    private static final ValueJoiner JOINER = (left, right) -> {
        String found = (left == null ? "-" : text(left)) + "/" + (right == null ? "-" : text(right));
        return found.startsWith("n") ? null : found;
    };

    private Node joined(Node node, KStream stream, String operation, Deque<String> words) {
        Serde string = Serdes.String();
        Node other = names.get(words.remove());
        if (operation.endsWith("lookup-global")) {
            ValueMapperWithKey by = mapper(words);
            KeyValueMapper chosen = (key, value) -> by.apply(key, value);
            GlobalKTable rows = (GlobalKTable) other.it();
            return node.with(operation.startsWith("left")
                    ? stream.leftJoin(rows, chosen, JOINER)
                    : stream.join(rows, chosen, JOINER), node.key(), string);
        }
        if (operation.endsWith("lookup")) {
            KTable table = (KTable) other.it();
            Joined how = Joined.with(node.key(), node.value(), other.value(), store());
            long grace = number(words, "grace", -1);
            if (grace >= 0) {
                how = how.withGracePeriod(Duration.ofMillis(grace));
            }
            return node.with(operation.startsWith("left")
                    ? stream.leftJoin(table, JOINER, how)
                    : stream.join(table, JOINER, how), node.key(), string);
        }
        KStream right = (KStream) other.it();
        Duration before = Duration.ofMillis(number(words, "before", 0));
        Duration after = Duration.ofMillis(number(words, "after", 0));
        Duration grace = Duration.ofMillis(number(words, "grace", 0));
        JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofDays(1), grace);
        windows = windows.before(before).after(after);
        StreamJoined how = StreamJoined.with(node.key(), node.value(), other.value())
                .withName(store()).withStoreName(store());
        Object found = switch (operation) {
            case "join" -> stream.join(right, JOINER, windows, how);
            case "left-join" -> stream.leftJoin(right, JOINER, windows, how);
            case "outer-join" -> stream.outerJoin(right, JOINER, windows, how);
            default -> throw new IllegalArgumentException("unknown operation " + operation);
        };
        return node.with(found, node.key(), string);
    }

    private static long number(Deque<String> words, String name, long otherwise) {
        List<String> all = new ArrayList<>(words);
        int index = all.indexOf(name);
        return index < 0 ? otherwise : Long.parseLong(all.get(index + 1));
    }

    // --- groups and windows -------------------------------------------------------------------

    private Object onGrouped(Node node, String operation, Deque<String> words) {
        Object it = node.it();
        List<String> all = new ArrayList<>(words);
        Duration grace = Duration.ofMillis(number(words, "grace", 0));
        EmitStrategy emit = all.contains("close")
                ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
        String retain = all.contains("retain") ? "" + number(words, "retain", 0) : "";
        switch (operation) {
            case "tumbling":
            case "hopping": {
                Duration size = Duration.ofMillis(Long.parseLong(words.remove()));
                TimeWindows windows = TimeWindows.ofSizeAndGrace(size, grace);
                if (operation.equals("hopping")) {
                    windows = windows.advanceBy(Duration.ofMillis(Long.parseLong(words.remove())));
                }
                return timed(node, windows, emit, WindowedSerdes.timeWindowedSerdeFrom(
                        String.class, size.toMillis()), retain);
            }
            case "unlimited": {
                long start = Long.parseLong(words.remove());
                UnlimitedWindows windows = UnlimitedWindows.of().startOn(Instant.ofEpochMilli(start));
                return timed(node, windows, emit,
                        WindowedSerdes.timeWindowedSerdeFrom(String.class, Long.MAX_VALUE), retain);
            }
            case "sliding": {
                Duration difference = Duration.ofMillis(Long.parseLong(words.remove()));
                SlidingWindows windows =
                        SlidingWindows.ofTimeDifferenceAndGrace(difference, grace);
                Serde keys = WindowedSerdes.timeWindowedSerdeFrom(
                        String.class, difference.toMillis());
                Object windowed = it instanceof CogroupedKStream cogrouped
                        ? cogrouped.windowedBy(windows)
                        : ((TimeWindowedKStream) ((KGroupedStream) it).windowedBy(windows))
                                .emitStrategy(emit);
                return new Node(windowed, keys, node.value(), retain);
            }
            case "session": {
                Duration gap = Duration.ofMillis(Long.parseLong(words.remove()));
                SessionWindows windows =
                        SessionWindows.ofInactivityGapAndGrace(gap, grace);
                Serde keys = WindowedSerdes.sessionWindowedSerdeFrom(String.class);
                Object windowed = it instanceof CogroupedKStream cogrouped
                        ? cogrouped.windowedBy(windows)
                        : ((SessionWindowedKStream) ((KGroupedStream) it).windowedBy(windows))
                                .emitStrategy(emit);
                return new Node(windowed, keys, node.value(), retain);
            }
            case "cogroup": {
                String mark = words.remove();
                Aggregator add = (key, value, old) -> ADD.apply(key, mark + value, old);
                KGroupedStream other = (KGroupedStream) (words.isEmpty() ? it : names.get(words.remove()).it());
                return node.with(it instanceof CogroupedKStream cogrouped
                        ? cogrouped.cogroup(other, add) : other.cogroup(add));
            }
            default:
                return aggregated(node, operation);
        }
    }

    private static Node timed(
            Node node, Windows windows, EmitStrategy emit, Serde keys, String retain) {
        Object windowed = node.it() instanceof CogroupedKStream cogrouped
                ? cogrouped.windowedBy(windows)
                : ((KGroupedStream) node.it()).windowedBy(windows);
        if (windowed instanceof TimeWindowedKStream stream && !(windows instanceof UnlimitedWindows)) {
            windowed = stream.emitStrategy(emit);
        }
        return new Node(windowed, keys, node.value(), retain);
    }

    private static final Initializer INITIAL = () -> ".";
    private static final Aggregator ADD = (key, value, old) ->
            "x".equals(value) ? null : old + (value == null ? "~" : text(value));
    private static final Aggregator REMOVE = (key, value, old) -> old + "-" + text(value);
    private static final Merger MERGE = (key, one, other) -> "(" + one + "," + other + ")";
    private static final Reducer REDUCE = (one, other) ->
            "x".equals(other) ? null : text(one) + (other == null ? "~" : text(other));
    private static final Reducer UNREDUCE = (one, other) -> text(one) + "-" + text(other);

    private Node aggregated(Node node, String operation) {
        Serde inner = Serdes.String();
        Serde value = operation.equals("count") ? Serdes.Long() : Serdes.String();
        Materialized how = kept(inner, value);
        if (!node.retain().isEmpty()) {
            how = how.withRetention(Duration.ofMillis(Long.parseLong(node.retain())));
        }
        Object found;
        if (node.it() instanceof KGroupedStream grouped) {
            found = switch (operation) {
                case "count" -> grouped.count(how);
                case "reduce" -> grouped.reduce(REDUCE, how);
                default -> grouped.aggregate(INITIAL, ADD, how);
            };
        } else if (node.it() instanceof TimeWindowedKStream grouped) {
            found = switch (operation) {
                case "count" -> grouped.count(how);
                case "reduce" -> grouped.reduce(REDUCE, how);
                default -> grouped.aggregate(INITIAL, ADD, how);
            };
        } else if (node.it() instanceof SessionWindowedKStream grouped) {
            found = switch (operation) {
                case "count" -> grouped.count(how);
                case "reduce" -> grouped.reduce(REDUCE, how);
                default -> grouped.aggregate(INITIAL, ADD, MERGE, how);
            };
        } else if (node.it() instanceof CogroupedKStream grouped) {
            found = grouped.aggregate(INITIAL, how);
        } else if (node.it() instanceof TimeWindowedCogroupedKStream grouped) {
            found = grouped.aggregate(INITIAL, how);
        } else {
            found = ((SessionWindowedCogroupedKStream) node.it()).aggregate(INITIAL, MERGE, how);
        }
        return new Node(found, node.key(), value, "");
    }

    // --- tables -------------------------------------------------------------------------------

    private Object onTable(Node node, KTable table, String operation, Deque<String> words) {
        Serde string = Serdes.String();
        List<String> all = new ArrayList<>(words);
        switch (operation) {
            case "changes":
                return node.with(table.toStream());
            case "filter":
                return node.with(table.filter(predicate(words.remove())));
            case "filter-not":
                return node.with(table.filterNot(predicate(words.remove())));
            case "map-values":
                return node.with(table.mapValues(mapper(words)), node.key(), string);
            case "group-by": {
                ValueMapperWithKey group = mapper(words);
                ValueMapperWithKey newValue = words.isEmpty() ? (key, value) -> value : mapper(words);
                Serde value = words.isEmpty() && all.size() == 1 ? node.value() : string;
                KeyValueMapper by = (key, row) ->
                        KeyValue.pair(group.apply(key, row), newValue.apply(key, row));
                return node.with(table.groupBy(by, Grouped.with(store(), string, value)),
                        string, value);
            }
            case "suppress":
                return node.with(table.suppress(suppression(words)));
            case "fk-join":
            case "fk-left-join": {
                KTable other = (KTable) names.get(words.remove()).it();
                ValueMapperWithKey on = mapper(words);
                java.util.function.BiFunction extract = (key, row) -> on.apply(key, row);
                return node.with(operation.equals("fk-join")
                        ? table.join(other, extract, JOINER, kept(node.key(), string))
                        : table.leftJoin(other, extract, JOINER, kept(node.key(), string)),
                        node.key(), string);
            }
            default:
                KTable right = (KTable) names.get(words.remove()).it();
                Object found = switch (operation) {
                    case "join" -> table.join(right, JOINER);
                    case "left-join" -> table.leftJoin(right, JOINER);
                    case "outer-join" -> table.outerJoin(right, JOINER);
                    default -> throw new IllegalArgumentException("unknown operation " + operation);
                };
                return node.with(found, node.key(), string);
        }
    }

    private Suppressed suppression(Deque<String> words) {
        if (words.remove().equals("close")) {
            return Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded());
        }
        Duration limit = Duration.ofMillis(Long.parseLong(words.remove()));
        long records = number(words, "records", -1);
        Suppressed.BufferConfig buffer = records < 0
                ? Suppressed.BufferConfig.unbounded() : Suppressed.BufferConfig.maxRecords(records);
        if (words.contains("fail")) {
            buffer = ((Suppressed.EagerBufferConfig) buffer).shutDownWhenFull();
        }
        return Suppressed.untilTimeLimit(limit, buffer);
    }

    private Node onGroupedTable(Node node, KGroupedTable grouped, String operation) {
        Serde value = operation.equals("count") ? Serdes.Long() : Serdes.String();
        Materialized how = kept(Serdes.String(), value);
        Object found = switch (operation) {
            case "count" -> grouped.count(how);
            case "reduce" -> grouped.reduce(REDUCE, UNREDUCE, how);
            default -> grouped.aggregate(INITIAL, ADD, REMOVE, how);
        };
        return node.with(found, node.key(), value);
    }

    // --- functions ----------------------------------------------------------------------------

    private static ValueMapperWithKey mapper(Deque<String> words) {
        String name = words.remove();
        return (key, given) -> {
            String value = text(given);
            return switch (name) {
                case "first" -> value == null ? null : value.substring(0, 1);
                case "last" -> value == null ? null : value.substring(value.length() - 1);
                case "value" -> value;
                case "key" -> key instanceof Windowed windowed ? windowed.key() : key;
                case "window" -> text(key);
                case "plus" -> value == null ? null : value + "+";
                case "plus-null" -> value == null ? "none" : value + "+";
                case "null-x" -> value == null || value.startsWith("x") ? null : value;
                case "keyed" -> text(key) + ":" + value;
                case "parts" -> value == null ? List.of() : Arrays.asList(value.split(","));
                default -> throw new IllegalArgumentException("unknown function " + name);
            };
        };
    }

    private static Predicate predicate(String name) {
        return (key, given) -> {
            String value = text(given);
            return switch (name) {
                case "null" -> value == null;
                case "no-key" -> key == null;
                case "has-x" -> value != null && value.contains("x");
                case "low" -> value != null && value.compareTo("5") < 0;
                case "key-a" -> key != null && text(key).startsWith("a");
                default -> throw new IllegalArgumentException("unknown predicate " + name);
            };
        };
    }
}
