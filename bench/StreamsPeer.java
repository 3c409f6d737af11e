import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;

/** The programs of bench/stream_apps.py in Kafka Streams: KIND BOOTSTRAP NAME STATE IN OTHER OUT. */
public final class StreamsPeer {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** The record of about 150 bytes that all programs read. */
    public static final class Order {
        public String user;
        public double amount;
        public String kind;
        public String country;
        public long item;
        public String note;
    }

    /** What the stateless program makes of it. */
    public record Priced(String user, double amount, String country) {}

    private static <T> Serde<T> json(Class<T> type) {
        Serializer<T> write = (topic, value) -> {
            try {
                return value == null ? null : JSON.writeValueAsBytes(value);
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        };
        Deserializer<T> read = (topic, data) -> {
            try {
                return data == null ? null : JSON.readValue(data, type);
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        };
        return Serdes.serdeFrom(write, read);
    }

    public static void main(String[] words) {
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, words[1]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, words[2]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, words[3]);
        String commit = System.getenv().getOrDefault("BENCH_COMMIT_MS", "1000");
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, commit);
        String protocol = System.getenv("BENCH_GROUP_PROTOCOL");
        if (protocol != null) {
            config.put("group.protocol", protocol);
        }
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        Serde<String> text = Serdes.String();
        Serde<Order> order = json(Order.class);
        KStream<String, Order> orders = words[0].equals("kept")
                ? null
                : builder.stream(words[4], Consumed.with(text, order));
        switch (words[0]) {
            case "kept" -> builder
                    .stream(words[4], Consumed.with(text, text))
                    .groupByKey(Grouped.with(text, text))
                    .reduce((old, now) -> now, Materialized.as("kept"))
                    .toStream()
                    .filter((key, value) -> value.length() < 100)
                    .to(words[6], Produced.with(text, text));
            case "stateless" -> orders
                    .filter((key, each) -> each.amount > 0)
                    .mapValues(each -> {
                        each.amount *= 1.19;
                        return each;
                    })
                    .filter((key, each) -> !each.kind.equals("bot"))
                    .mapValues(each -> {
                        each.country = each.country.toUpperCase();
                        return each;
                    })
                    .mapValues(each -> new Priced(each.user, each.amount, each.country))
                    .to(words[6], Produced.with(text, json(Priced.class)));
            case "count" -> orders
                    .groupByKey(Grouped.with(text, order))
                    .count(Materialized.as("counts"))
                    .toStream()
                    .to(words[6], Produced.with(text, Serdes.Long()));
            case "windowed" -> orders
                    .groupByKey(Grouped.with(text, order))
                    .windowedBy(TimeWindows.ofSizeAndGrace(
                            Duration.ofMinutes(1), Duration.ofSeconds(5)))
                    .count(Materialized.as("minutes"))
                    .toStream((key, count) -> key.key())
                    .to(words[6], Produced.with(text, Serdes.Long()));
            default -> orders
                    .join(
                            builder.stream(words[5], Consumed.with(text, order)),
                            (one, other) -> new Priced(
                                    one.user, one.amount + other.amount, other.country),
                            JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofSeconds(5)),
                            StreamJoined.with(text, order, order).withName("pairs")
                                    .withStoreName("pairs"))
                    .to(words[6], Produced.with(text, json(Priced.class)));
        }
        KafkaStreams app = new KafkaStreams(builder.build(), config);
        Runtime.getRuntime().addShutdownHook(new Thread(app::close));
        app.start();
    }
}
