import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ReplicaInfo;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Each line: bootstrap servers, topic, and a number of records to write, or a directory. Moves
 *  partition 0 of broker 1 there, and answers where Kafka's admin client finds it when nothing is on
 *  its way any more. */
public class MoveReplica {
    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split(" ");
            try (Admin admin = Admin.create(Map.of("bootstrap.servers", words[0]))) {
                boolean moves = words[2].startsWith("/");
                System.out.println(
                    moves ? moved(admin, words[1], words[2]) : written(admin, words));
            }
        }
    }

    private static String written(Admin admin, String[] words) throws Exception {
        admin.createTopics(Set.of(new NewTopic(words[1], 1, (short) 1))).all().get();
        int count = Integer.parseInt(words[2]);
        Map<String, Object> settings = Map.of("bootstrap.servers", words[0]);
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(settings, bytes, bytes)) {
            for (int number = 0; number < count; number++) {
                producer.send(new ProducerRecord<>(words[1], new byte[100]));
            }
        }
        return "written " + count;
    }

    private static String moved(Admin admin, String topic, String directory) throws Exception {
        var replica = new TopicPartitionReplica(topic, 0, 1);
        try {
            admin.alterReplicaLogDirs(Map.of(replica, directory)).all().get();
        } catch (java.util.concurrent.ExecutionException failure) {
            return failure.getCause().getClass().getSimpleName();
        }
        while (true) {
            var found = admin.describeReplicaLogDirs(Set.of(replica)).all().get().get(replica);
            if (found.getFutureReplicaLogDir() == null) {
                return found.getCurrentReplicaLogDir() + " " + size(admin, topic);
            }
            Thread.sleep(20);
        }
    }

    private static long size(Admin admin, String topic) throws Exception {
        long size = 0;
        for (var directory : admin.describeLogDirs(Set.of(1)).allDescriptions().get().get(1).values()) {
            ReplicaInfo info = directory.replicaInfos().get(new TopicPartition(topic, 0));
            size += info == null ? 0 : info.size();
        }
        return size;
    }
}
