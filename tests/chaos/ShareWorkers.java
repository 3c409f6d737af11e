import java.io.FileOutputStream;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Arguments: bootstrap servers, topic, group, number of consumers, path. Each consumer accepts what
 *  it gets until standard input ends, and writes a diary as `tests.chaos.sharing` does. */
public class ShareWorkers {
    private static volatile boolean isEnding;

    public static void main(String[] words) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(words[3]); number++) {
            String path = words[4] + "-" + number + ".diary";
            Thread thread = new Thread(() -> work(words[0], words[1], words[2], path));
            thread.start();
            threads.add(thread);
        }
        while (System.in.read() >= 0) { }
        isEnding = true;
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void work(String servers, String topic, String group, String path) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", servers,
            "group.id", group,
            "share.acknowledgement.mode", "explicit");
        var bytes = new ByteArrayDeserializer();
        try (var diary = new PrintStream(new FileOutputStream(path, true), false);
                var queue = new KafkaShareConsumer<byte[], byte[]>(settings, bytes, bytes)) {
            queue.subscribe(List.of(topic));
            while (!isEnding) {
                turn(queue, diary);
            }
        } catch (Exception failure) {
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private static void turn(KafkaShareConsumer<byte[], byte[]> queue, PrintStream diary) {
        var records = queue.poll(Duration.ofMillis(500));
        if (records.isEmpty()) {
            return;
        }
        List<String> got = new ArrayList<>();
        List<String> offsets = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> each : records) {
            got.add(each.offset() + ":" + each.deliveryCount().get());
            offsets.add("" + each.offset());
        }
        write(diary, "got", got);
        write(diary, "said", offsets);
        try {
            for (ConsumerRecord<byte[], byte[]> each : records) {
                queue.acknowledge(each, AcknowledgeType.ACCEPT);
            }
            if (queue.commitSync().values().stream().allMatch(each -> each.isEmpty())) {
                write(diary, "done", offsets);
            }
        } catch (KafkaException | IllegalStateException refused) {
            System.err.println(refused);
        }
    }

    private static void write(PrintStream diary, String word, List<String> what) {
        diary.print(what.stream().collect(Collectors.joining(" ", word + " ", "\n")));
        diary.flush();
    }
}
