import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Scanner;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** For each line `bootstrap alias group`: what Java's MirrorMaker client reads on the target. */
public class ReadMirror {
    public static void main(String[] arguments) throws Exception {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            Map<String, Object> target = new HashMap<>();
            target.put("bootstrap.servers", words[0]);
            Map<TopicPartition, OffsetAndMetadata> offsets = RemoteClusterUtils.translateOffsets(
                target, words[1], words[2], Duration.ofSeconds(30));
            Map<String, Long> shown = new TreeMap<>();
            offsets.forEach((where, at) -> shown.put(where.toString(), at.offset()));
            System.out.println(
                shown + " " + new TreeSet<>(RemoteClusterUtils.upstreamClusters(target))
                + " " + new TreeSet<>(RemoteClusterUtils.heartbeatTopics(target)));
        }
        System.exit(0);
    }
}
