import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Scanner;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.Stores;

/**
 * Runs each app of docs/from-kafka-streams.md twice, until its input ends: one moves at a line of
 * the input, and one, with "-stays" behind its names, goes on.
 *
 * Arguments: bootstrap servers, state directory, group protocol, application ids.
 */
public final class KafkaStreamsApps {
    private static final String STAYS = "-stays";

    public static void main(String[] args) throws Exception {
        List<KafkaStreams> moving = new ArrayList<>();
        List<KafkaStreams> all = new ArrayList<>();
        for (int at = 3; at < args.length; at++) {
            for (String suffix : new String[] {"", STAYS}) {
                StreamsBuilder builder = new StreamsBuilder();
                build(at - 3, builder, suffix);
                Properties settings = new Properties();
                settings.put("bootstrap.servers", args[0]);
                settings.put("state.dir", Path.of(args[1]).toString());
                settings.put("group.protocol", args[2]);
                settings.put("application.id", args[at] + suffix);
                settings.put("processing.guarantee", "exactly_once_v2");
                settings.put("commit.interval.ms", "200");
                settings.put("auto.offset.reset", "earliest");
                settings.put("statestore.cache.max.bytes", "0");
                settings.put("default.key.serde", Serdes.StringSerde.class);
                settings.put("default.value.serde", Serdes.StringSerde.class);
                KafkaStreams streams = new KafkaStreams(builder.build(), settings);
                streams.setUncaughtExceptionHandler(error -> {
                    error.printStackTrace();
                    return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
                });
                streams.start();
                all.add(streams);
                if (suffix.isEmpty()) {
                    moving.add(streams);
                }
            }
        }
        System.out.println("STARTED");
        Scanner lines = new Scanner(System.in);
        if (lines.hasNextLine()) {
            lines.nextLine();
            moving.forEach(each -> each.close(new KafkaStreams.CloseOptions().leaveGroup(true)));
            System.out.println("MOVED");
            while (lines.hasNextLine()) {
                lines.nextLine();
            }
        }
        all.forEach(KafkaStreams::close);
    }

    private static void build(int which, StreamsBuilder builder, String suffix) {
        switch (which) {
            /* APPS */
            default -> throw new IllegalArgumentException();
        }
    }
}
