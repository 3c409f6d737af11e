import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Arguments: bootstrap servers, source, target, name. Flink copies what the source has now, exactly
 *  once as KafkaSink has it; the job fails twice on its way, each time after a checkpoint. */
public class FlinkCopier {
    static final AtomicInteger failures = new AtomicInteger();

    static class FailsTwice implements MapFunction<String, String>, CheckpointListener {
        private transient boolean isAfterCheckpoint;
        private transient int seen;

        public String map(String value) throws Exception {
            Thread.sleep(1);  // so that checkpoints come between records
            if (isAfterCheckpoint && ++seen > 100 && failures.get() < 2) {
                System.out.println("failure " + failures.incrementAndGet());
                throw new IllegalStateException("on its way");
            }
            return value;
        }

        public void notifyCheckpointComplete(long id) {
            isAfterCheckpoint = true;
        }
    }

    public static void main(String[] words) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("restart-strategy.type", "fixed-delay");
        settings.setString("restart-strategy.fixed-delay.attempts", "10");
        settings.setString("restart-strategy.fixed-delay.delay", "100 ms");
        var flink = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
        flink.enableCheckpointing(200);
        var strings = new SimpleStringSchema();
        var source = KafkaSource.<String>builder()
            .setBootstrapServers(words[0])
            .setTopics(words[1])
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setBounded(OffsetsInitializer.latest())
            .setValueOnlyDeserializer(strings)
            .build();
        var serializer = KafkaRecordSerializationSchema.<String>builder()
            .setTopic(words[2])
            .setValueSerializationSchema(strings)
            .build();
        Properties more = new Properties();
        more.setProperty("transaction.timeout.ms", "60000");
        var sink = KafkaSink.<String>builder()
            .setBootstrapServers(words[0])
            .setRecordSerializer(serializer)
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(words[3])
            .setKafkaProducerConfig(more)
            .build();
        flink.fromSource(source, WatermarkStrategy.noWatermarks(), "source")
            .map(new FailsTwice())
            .sinkTo(sink);
        flink.execute();
        System.out.println("done");
    }
}
