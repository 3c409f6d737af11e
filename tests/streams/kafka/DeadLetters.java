import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.Scanner;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.test.TestRecord;

/** Prints a line for each value, all of which fail: the dead letter of Kafka Streams and its headers. */
public class DeadLetters {
    public static void main(String[] arguments) {
        var properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "dead");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        properties.put("errors.dead.letter.queue.topic.name", "dead");
        properties.put("processing.exception.handler", LogAndContinueProcessingExceptionHandler.class);
        var builder = new StreamsBuilder();
        builder.stream("in", Consumed.with(Serdes.String(), Serdes.String()))
            .mapValues(value -> String.valueOf(Integer.parseInt(value)))
            .to("out", Produced.with(Serdes.String(), Serdes.String()));
        try (var driver = new TopologyTestDriver(builder.build(), properties)) {
            var in = driver.createInputTopic("in", new StringSerializer(), new StringSerializer());
            var lines = new Scanner(System.in);
            while (lines.hasNextLine()) {
                var headers = new RecordHeaders().add("own", "x".getBytes(StandardCharsets.UTF_8));
                in.pipeInput(new TestRecord<>("k", lines.nextLine(), headers, 7L));
            }
            var bytes = new ByteArrayDeserializer();
            var dead = driver.createOutputTopic("dead", bytes, bytes);
            for (var letter : dead.readRecordsToList()) {
                var line = new StringBuilder(text(letter.key()) + " " + text(letter.value()) + " " + letter.timestamp());
                for (Header each : letter.headers())
                    line.append("|" + each.key() + " " + text(each.value()).lines().findFirst().orElse(""));
                System.out.println(line);
            }
        }
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "null" : new String(bytes, StandardCharsets.UTF_8);
    }
}
