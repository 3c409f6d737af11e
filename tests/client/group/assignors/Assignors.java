// Shares partitions with Apache Kafka's own assignors: one case a line of JSON, one answer a line.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.*;

public class Assignors {
    static final ObjectMapper JSON = new ObjectMapper();

    static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }

    static List<TopicPartition> partitions(JsonNode told) {
        List<TopicPartition> found = new ArrayList<>();
        for (JsonNode each : told)
            found.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt()));
        return found;
    }

    static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new LinkedHashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            for (int index = 0; index < topic.getValue().size(); index++) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : topic.getValue().get(index))
                    replicas.add(nodes.computeIfAbsent(rack.asText(),
                        name -> new Node(nodes.size(), "host", 9092, name)));
                Node[] all = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), index, null, all, all));
            }
        });
        return new Cluster("c", nodes.values(), partitions, Set.of(), Set.of());
    }

    static Subscription subscription(JsonNode told, ByteBuffer userData) {
        List<String> topics = new ArrayList<>();
        told.get("topics").forEach(each -> topics.add(each.asText()));
        Optional<String> rack = Optional.ofNullable(told.get("rack").textValue());
        Subscription made = new Subscription(
            topics, userData, partitions(told.get("owned")), told.get("generation").asInt(), rack);
        made.setGroupInstanceId(Optional.ofNullable(told.get("instance").textValue()));
        return made;
    }

    static ByteBuffer userData(String name, JsonNode told) {
        ConsumerPartitionAssignor mine = assignor(name);
        JsonNode had = told.get("had");
        if (!had.isNull())
            mine.onAssignment(new Assignment(partitions(had)),
                new ConsumerGroupMetadata("g", told.get("had_in").asInt(), "m", Optional.empty()));
        return mine.subscriptionUserData(Set.of());
    }

    static String hex(ByteBuffer bytes) {
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        return HexFormat.of().formatHex(copy);
    }

    static ArrayNode pairs(List<TopicPartition> partitions) {
        ArrayNode said = JSON.createArrayNode();
        for (TopicPartition each : partitions)
            said.addArray().add(each.topic()).add(each.partition());
        return said;
    }

    static ObjectNode answer(JsonNode told) {
        String name = told.get("assignor").asText();
        Map<String, Subscription> members = new HashMap<>();
        ObjectNode said = JSON.createObjectNode();
        ObjectNode bytes = said.putObject("bytes");
        for (JsonNode each : told.get("members")) {
            String id = each.get("id").asText();
            Subscription made = subscription(each, userData(name, each));
            bytes.put(id, hex(ConsumerProtocol.serializeSubscription(made)));
            members.put(id, made);
        }
        GroupAssignment shares = assignor(name).assign(
            cluster(told.get("topics")), new GroupSubscription(members));
        ObjectNode shared = said.putObject("shares");
        for (Map.Entry<String, Assignment> each : shares.groupAssignment().entrySet())
            shared.set(each.getKey(), pairs(each.getValue().partitions()));
        return said;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                System.out.println(answer(JSON.readTree(line)));
            } catch (RuntimeException failed) {
                System.out.println(JSON.createObjectNode().put("failed", failed.toString()));
            }
        }
    }
}
