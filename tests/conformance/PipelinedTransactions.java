import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactions of Java's producer, one after the other without a pause and without linger. For each
 * line "bootstrap topic partitions transactions records aborts" it answers "committed aborted
 * error". With aborts, each commit is followed by a transaction that is aborted at once.
 */
public class PipelinedTransactions {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(run(line.split(" ")));
        }
    }

    private static String run(String[] words) {
        String topic = words[1];
        int partitions = Integer.parseInt(words[2]);
        int transactions = Integer.parseInt(words[3]);
        int records = Integer.parseInt(words[4]);
        boolean aborts = Boolean.parseBoolean(words[5]);
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", words[0]);
        settings.put("transactional.id", topic);
        settings.put("linger.ms", 0);
        settings.put("batch.size", 0);
        int committed = 0;
        int aborted = 0;
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (int number = 0; number < transactions; number++) {
                producer.beginTransaction();
                send(producer, topic, partitions, records, "c" + number);
                producer.commitTransaction();
                committed++;
                if (aborts) {
                    producer.beginTransaction();
                    send(producer, topic, partitions, number % 3, "a" + number);
                    producer.abortTransaction();
                    aborted++;
                }
            }
            return committed + " " + aborted + " none";
        } catch (KafkaException error) {
            return committed + " " + aborted + " " + error.toString().replace('\n', ' ');
        }
    }

    private static void send(
            KafkaProducer<String, String> producer, String topic, int partitions, int records, String value) {
        for (int index = 0; index < records; index++) {
            producer.send(new ProducerRecord<>(topic, index % partitions, null, value + "-" + index));
        }
    }
}
