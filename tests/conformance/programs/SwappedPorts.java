import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Says where a partition ends, writes the next line to it, and says where that is. */
public class SwappedPorts {
    public static void main(String[] given) throws Exception {
        Map<String, Object> cluster = Map.of("bootstrap.servers", given[0]);
        TopicPartition there = new TopicPartition(given[1], Integer.parseInt(given[2]));
        var words = new StringSerializer();
        var texts = new StringDeserializer();
        try (var consumer = new KafkaConsumer<>(cluster, texts, texts);
                var producer = new KafkaProducer<>(cluster, words, words)) {
            var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                long end = consumer.endOffsets(List.of(there)).get(there);
                var record = new ProducerRecord<String, String>(there.topic(), there.partition(), null, line);
                long offset = producer.send(record).get().offset();
                System.out.println("AT;" + end + ";" + offset);
            }
        }
    }
}
