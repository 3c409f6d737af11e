import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Asks Apache Kafka's own generated classes: one JSON request a line on stdin, one JSON answer a
 * line on stdout, in the same order. Run from source, with Kafka's jars on the class path.
 *
 * <pre>
 * {"op": "encode", "type": CLASS, "version": N, "json": {...}}   -> {"hex": "..."}
 *     with "as": M the message is read from JSON of version N and written in version M
 * {"op": "decode", "type": CLASS, "version": N, "hex": "..."}    -> {"json": {...}}
 * {"op": "errors"}                                               -> {"errors": [...]}
 * {"op": "apis"}                                                 -> {"apis": [...]}
 * </pre>
 *
 * What Kafka refuses is an answer too: {"refused": SIMPLE CLASS NAME, "why": TEXT}.
 */
public final class KafkaOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    private KafkaOracle() { }

    public static void main(String[] args) throws IOException {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader questions =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            answers.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
        answers.flush();
    }

    private static JsonNode answer(JsonNode question) {
        try {
            return switch (question.get("op").asText()) {
                case "encode" -> encode(question);
                case "decode" -> decode(question);
                case "errors" -> errors();
                case "apis" -> apis();
                default -> refused(new IllegalArgumentException("unknown op"));
            };
        } catch (InvocationTargetException e) {
            return refused(e.getCause());
        } catch (ReflectiveOperationException | RuntimeException e) {
            return refused(e);
        }
    }

    private static ObjectNode refused(Throwable why) {
        return JSON.createObjectNode()
            .put("refused", why.getClass().getSimpleName())
            .put("why", String.valueOf(why.getMessage()));
    }

    private static ObjectNode encode(JsonNode question) throws ReflectiveOperationException {
        Class<?> type = Class.forName(question.get("type").asText());
        short version = (short) question.get("version").asInt();
        short as = question.has("as") ? (short) question.get("as").asInt() : version;
        Message message = fromJson(type, question.get("json"), version);
        ByteBuffer bytes = MessageUtil.toByteBufferAccessor(message, as).buffer();
        byte[] written = new byte[bytes.remaining()];
        bytes.get(written);
        return JSON.createObjectNode().put("hex", HEX.formatHex(written));
    }

    private static ObjectNode decode(JsonNode question) throws ReflectiveOperationException {
        Class<?> type = Class.forName(question.get("type").asText());
        short version = (short) question.get("version").asInt();
        ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(question.get("hex").asText()));
        Message message = (Message) type.getConstructor().newInstance();
        message.read(new ByteBufferAccessor(bytes), version);
        if (bytes.hasRemaining()) {
            throw new IllegalStateException(bytes.remaining() + " bytes left over");
        }
        return JSON.createObjectNode().set("json", toJson(type, message, version));
    }

    // Most message classes have a converter beside them; those of Kafka Streams are published
    // without, so their setters and getters are walked instead.

    private static Message fromJson(Class<?> type, JsonNode json, short version)
            throws ReflectiveOperationException {
        Class<?> converter = converterOf(type);
        if (converter == null) {
            return (Message) built(type, json);
        }
        Method read = converter.getMethod("read", JsonNode.class, short.class);
        return (Message) read.invoke(null, json, version);
    }

    private static JsonNode toJson(Class<?> type, Message message, short version)
            throws ReflectiveOperationException {
        Class<?> converter = converterOf(type);
        if (converter == null) {
            return shown(type, message);
        }
        Method write = converter.getMethod("write", type, short.class, boolean.class);
        return (JsonNode) write.invoke(null, message, version, false);
    }

    private static Class<?> converterOf(Class<?> type) {
        try {
            return Class.forName(type.getName() + "JsonConverter");
        } catch (ClassNotFoundException e) {
            return null;
        }
    }

    private static Object built(Class<?> type, JsonNode json) throws ReflectiveOperationException {
        Object struct = type.getConstructor().newInstance();
        for (Iterator<Map.Entry<String, JsonNode>> i = json.fields(); i.hasNext(); ) {
            Map.Entry<String, JsonNode> field = i.next();
            Method setter = setterOf(type, field.getKey());
            setter.invoke(struct, value(setter.getGenericParameterTypes()[0], field.getValue()));
        }
        return struct;
    }

    private static Object value(Type type, JsonNode json) throws ReflectiveOperationException {
        if (json.isNull()) return null;
        if (type == String.class) return json.asText();
        if (type instanceof ParameterizedType list) {
            List<Object> elements = new ArrayList<>();
            for (JsonNode element : json) {
                elements.add(value(list.getActualTypeArguments()[0], element));
            }
            return elements;
        }
        if (type == int.class || type == Integer.class) return json.asInt();
        if (type == long.class) return json.asLong();
        if (type == byte.class) return (byte) json.asInt();
        if (type == Uuid.class) return Uuid.fromString(json.asText());
        if (type == byte[].class) return MessageUtil.jsonNodeToBinary(json, "bytes");
        return built((Class<?>) type, json);
    }

    private static JsonNode shown(Class<?> type, Object struct)
            throws ReflectiveOperationException {
        ObjectNode json = JSON.createObjectNode();
        for (Method setter : type.getMethods()) {
            if (setter.getName().startsWith("set") && setter.getParameterCount() == 1) {
                String name = lowerFirst(setter.getName().substring(3));
                json.set(name, shownValue(type.getMethod(name).invoke(struct)));
            }
        }
        return json;
    }

    private static JsonNode shownValue(Object value) throws ReflectiveOperationException {
        if (value instanceof List<?> elements) {
            ArrayNode array = JSON.createArrayNode();
            for (Object element : elements) {
                array.add(shownValue(element));
            }
            return array;
        }
        if (value instanceof Uuid) return JSON.valueToTree(value.toString());
        if (value == null || value instanceof Number || value instanceof String
                || value instanceof byte[]) {
            return JSON.valueToTree(value);
        }
        return shown(value.getClass(), value);
    }

    private static Method setterOf(Class<?> type, String field) throws NoSuchMethodException {
        for (Method method : type.getMethods()) {
            if (method.getParameterCount() == 1 && method.getName().startsWith("set")
                    && lowerFirst(method.getName().substring(3)).equals(field)) {
                return method;
            }
        }
        throw new NoSuchMethodException(type + " has no setter for " + field);
    }

    private static String lowerFirst(String name) {
        return Character.toLowerCase(name.charAt(0)) + name.substring(1);
    }

    private static ObjectNode errors() {
        ArrayNode errors = JSON.createArrayNode();
        for (Errors error : Errors.values()) {
            errors.addObject()
                .put("code", error.code())
                .put("name", error.name())
                .put("retriable", error.exception() instanceof RetriableException)
                .put("refreshes_metadata",
                    error.exception() instanceof InvalidMetadataException);
        }
        return JSON.createObjectNode().set("errors", errors);
    }

    private static ObjectNode apis() {
        ArrayNode apis = JSON.createArrayNode();
        for (ApiKeys api : ApiKeys.values()) {
            ObjectNode described = apis.addObject().put("key", api.id).put("name", api.name);
            ArrayNode listeners = described.putArray("listeners");
            for (ApiMessageType.ListenerType listener : api.messageType.listeners()) {
                listeners.add(listener.name().toLowerCase());
            }
            if (api.hasValidVersion()) {
                described.put("oldest", api.oldestVersion());
                described.put("latest", api.latestVersion());
                described.put("latest_stable", api.latestVersion(false));
                ArrayNode requestHeaders = described.putArray("request_headers");
                ArrayNode responseHeaders = described.putArray("response_headers");
                for (short version : api.allVersions()) {
                    requestHeaders.add(api.requestHeaderVersion(version));
                    responseHeaders.add(api.responseHeaderVersion(version));
                }
            }
        }
        return JSON.createObjectNode().set("apis", apis);
    }
}
