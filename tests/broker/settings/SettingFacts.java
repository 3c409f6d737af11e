import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * What Apache Kafka itself says of its settings. Each line names a group of them; the answer is one
 * line of JSON: a list of settings without their documentation, or a map of names.
 */
public final class SettingFacts {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "US-ASCII"));
        PrintStream out = new PrintStream(System.out, false, "US-ASCII");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            StringBuilder json = new StringBuilder();
            write(json, answer(line));
            out.println(json);
        }
        out.flush();
    }

    private static Object answer(String question) throws Exception {
        switch (question) {
            case "broker":
                return settings(AbstractKafkaConfig.CONFIG_DEF);
            case "broker-quota":
                return settings(QuotaConfig.brokerQuotaConfigs());
            case "topic":
                return settings(LogConfig.configDefCopy());
            case "group":
                return settings(GroupConfig.CONFIG_DEF);
            case "client-metrics":
                return settings(ClientMetricsConfigs.configDef());
            case "update-modes":
                return new TreeMap<>(DynamicBrokerConfig.dynamicConfigUpdateModes());
            case "topic-synonyms":
                return topicSynonyms();
            case "group-synonyms":
                return groupSynonyms();
            case "broker-synonyms":
                return brokerSynonyms();
            default:
                throw new IllegalArgumentException(question);
        }
    }

    private static List<Object> settings(ConfigDef definition) {
        List<Object> found = new ArrayList<>();
        for (ConfigKey key : new TreeMap<>(definition.configKeys()).values()) {
            Map<String, Object> facts = new TreeMap<>();
            facts.put("name", key.name);
            facts.put("type", key.type.name().toLowerCase());
            facts.put("required", !key.hasDefault());
            if (key.hasDefault()) {
                facts.put("default", text(key));
            }
            facts.put("importance", key.importance.name().toLowerCase());
            facts.put("valid", key.validator == null ? null : key.validator.toString());
            facts.put("internal", key.internalConfig);
            if (key.type == ConfigDef.Type.LIST) {
                facts.put("may_be_empty", mayBeEmpty(key));
            }
            found.add(facts);
        }
        return found;
    }

    private static boolean mayBeEmpty(ConfigKey key) {
        try {
            if (key.validator != null) {
                key.validator.ensureValid(key.name, List.of());
            }
            return true;
        } catch (ConfigException refusal) {
            return false;
        }
    }

    private static String text(ConfigKey key) {
        Object value = key.defaultValue;
        if (value == null) {
            return null;
        }
        return value instanceof Password ? "" : ConfigDef.convertToString(value, key.type);
    }

    private static Map<String, Object> topicSynonyms() {
        Map<String, Object> found = new TreeMap<>();
        ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach((name, synonyms) -> {
            List<Object> names = new ArrayList<>();
            synonyms.forEach(synonym -> names.add(synonym.name()));
            found.put(name, names);
        });
        return found;
    }

    private static Map<String, Object> groupSynonyms() {
        Map<String, Object> found = new TreeMap<>();
        for (Map.Entry<String, Optional<String>> entry :
                GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.entrySet()) {
            found.put(entry.getKey(), entry.getValue().orElse(null));
        }
        return found;
    }

    private static Map<String, Object> brokerSynonyms() {
        Map<String, Object> found = new TreeMap<>();
        for (String name : AbstractKafkaConfig.CONFIG_DEF.names()) {
            List<String> names = DynamicBrokerConfig.brokerConfigSynonyms(name, true);
            if (names.size() > 1) {
                found.put(name, names);
            }
        }
        return found;
    }

    private static void write(StringBuilder json, Object value) {
        if (value instanceof Map) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                json.append(separator);
                write(json, entry.getKey());
                json.append(": ");
                write(json, entry.getValue());
                separator = ", ";
            }
            json.append(separator.equals("{") ? "{}" : "}");
        } else if (value instanceof Collection) {
            String separator = "[";
            for (Object each : (Collection<?>) value) {
                json.append(separator);
                write(json, each);
                separator = ", ";
            }
            json.append(separator.equals("[") ? "[]" : "]");
        } else if (value == null || value instanceof Boolean) {
            json.append(value);
        } else {
            quote(json, value.toString());
        }
    }

    private static void quote(StringBuilder json, String text) {
        json.append('"');
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\') {
                json.append('\\').append(each);
            } else if (each < ' ' || each > '~') {
                json.append(String.format("\\u%04x", (int) each));
            } else {
                json.append(each);
            }
        }
        json.append('"');
    }
}
