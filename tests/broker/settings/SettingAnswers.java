import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import kafka.server.ConfigHelper;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.DescribeConfigsRequestData.DescribeConfigsResource;
import org.apache.kafka.common.message.DescribeConfigsResponseData.DescribeConfigsResourceResult;
import org.apache.kafka.common.message.DescribeConfigsResponseData.DescribeConfigsResult;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.metadata.ConfigRepository;
import org.apache.kafka.metadata.MetadataCache;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What Apache Kafka does with given settings. A line has fields between tabs: what is asked, then
 * `where/name=value` items, where `where` is "file" (the broker's), "all" (dynamic, of all brokers),
 * "one" (dynamic, of this broker), "own" (of the topic, group or subscription) or "before".
 *
 * "accept KIND" answers "yes" or "no" and Kafka's reason; "describe KIND" answers one setting after
 * the other, with its synonyms.
 */
public final class SettingAnswers {
    private final Map<String, Map<String, String>> given = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        System.setOut(System.err); // what Kafka logs is no answer
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(new SettingAnswers().answer(line.split("\t", -1)));
        }
        out.flush();
    }

    private String answer(String[] fields) {
        for (int at = 1; at < fields.length; at++) {
            int slash = fields[at].indexOf('/');
            int equals = fields[at].indexOf('=');
            where(fields[at].substring(0, slash))
                .put(fields[at].substring(slash + 1, equals), fields[at].substring(equals + 1));
        }
        String[] question = fields[0].split(" ");
        try {
            if (question[0].equals("describe")) {
                return describe(question[1]);
            }
            accept(question[1]);
            return "yes";
        } catch (Throwable refusal) {
            return "no\t" + String.valueOf(refusal).replaceAll("\\s+", " ");
        }
    }

    private Map<String, String> where(String name) {
        return given.computeIfAbsent(name, any -> new TreeMap<>());
    }

    private Properties properties(String name) {
        Properties properties = new Properties();
        properties.putAll(where(name));
        return properties;
    }

    private void accept(String kind) throws Exception {
        KafkaConfig config = new KafkaConfig(where("file"), false);
        boolean isTiered = config.remoteLogManagerConfig().isRemoteStorageSystemEnabled();
        switch (kind) {
            case "broker":
                LogConfig.validateBrokerLogConfigValues(config.extractLogConfigMap(), isTiered);
                break;
            case "all":
                acceptDynamic("all");
                break;
            case "one":
                acceptDynamic("one");
                break;
            case "topic":
                LogConfig.validate(
                    where("before"), where("own"), config.extractLogConfigMap(), isTiered);
                break;
            case "group":
                GroupConfig.validate(
                    where("own"), config.groupCoordinatorConfig(), config.shareGroupConfig());
                break;
            case "client-metrics":
                ClientMetricsConfigs.validate("subscription", where("own"));
                break;
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    private void acceptDynamic(String name) {
        Properties resolved = DynamicBrokerConfig.resolveVariableConfigs(properties(name));
        DynamicBrokerConfig.validateConfigs(properties(name), resolved, name.equals("one"));
    }

    private String describe(String kind) {
        KafkaConfig config = new KafkaConfig(where("file"), false);
        config.dynamicConfig().initialize(scala.Option.empty());
        config.dynamicConfig().updateDefaultConfig(properties("all"), false);
        config.dynamicConfig().updateBrokerConfig(config.brokerId(), properties("one"), false);
        ConfigHelper helper = new ConfigHelper(cache(), config, repository());
        DescribeConfigsResource resource = new DescribeConfigsResource();
        switch (kind) {
            case "broker":
                resource.setResourceType(ConfigResource.Type.BROKER.id());
                resource.setResourceName(String.valueOf(config.brokerId()));
                break;
            case "all":
                resource.setResourceType(ConfigResource.Type.BROKER.id()).setResourceName("");
                break;
            case "topic":
                resource.setResourceType(ConfigResource.Type.TOPIC.id()).setResourceName("own");
                break;
            case "group":
                resource.setResourceType(ConfigResource.Type.GROUP.id()).setResourceName("own");
                break;
            default:
                resource.setResourceType(ConfigResource.Type.CLIENT_METRICS.id());
                resource.setResourceName("own");
        }
        DescribeConfigsResult result = helper.describeConfigs(
            CollectionConverters.asScala(List.of(resource)).toList(), true, false).head();
        if (result.errorCode() != 0) {
            throw new IllegalStateException(result.errorMessage());
        }
        Map<String, String> entries = new TreeMap<>();
        result.configs().forEach(entry -> entries.put(entry.name(), text(entry)));
        return "yes\t" + String.join("\t", entries.values());
    }

    private static String text(DescribeConfigsResourceResult entry) {
        StringBuilder text = new StringBuilder();
        text.append(entry.name()).append('|').append(entry.value());
        text.append('|').append(entry.configSource()).append('|').append(entry.configType());
        text.append('|').append(entry.readOnly() ? "read-only" : "");
        text.append('|').append(entry.isSensitive() ? "sensitive" : "");
        entry.synonyms().forEach(synonym -> text.append('|').append(synonym.name()).append('=')
            .append(synonym.value()).append('@').append(synonym.source()));
        return text.toString();
    }

    private MetadataCache cache() {
        return (MetadataCache) Proxy.newProxyInstance(
            getClass().getClassLoader(), new Class<?>[] {MetadataCache.class},
            (proxy, method, arguments) -> true);
    }

    private ConfigRepository repository() {
        return (ConfigRepository) Proxy.newProxyInstance(
            getClass().getClassLoader(), new Class<?>[] {ConfigRepository.class},
            (proxy, method, arguments) -> properties("own"));
    }
}
