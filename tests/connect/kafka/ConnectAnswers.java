import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.text.ParsePosition;
import java.text.SimpleDateFormat;
import java.util.ArrayList;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TimeZone;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.runtime.AbstractHerder;
import org.apache.kafka.connect.runtime.rest.entities.ConfigKeyInfo;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Reads questions as JSON, one a line, and answers each as Kafka Connect's own classes do. */
public final class ConnectAnswers {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** The configuration was refused; anything thrown later is a failure of the record. */
    private static final class Refused extends Exception {
        Refused(Throwable cause) {
            super(cause);
        }
    }

    public static void main(String[] arguments) throws Exception {
        JSON.getFactory().configure(JsonGenerator.Feature.ESCAPE_NON_ASCII, true);
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        Locale.setDefault(Locale.US);
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        PrintStream silent = new PrintStream(java.io.OutputStream.nullOutputStream());
        System.setOut(silent);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer(question, answer);
            } catch (Refused refused) {
                answer.removeAll();
                answer.put("refused", String.valueOf(refused.getCause().getMessage()));
            } catch (Throwable failure) {
                answer.removeAll();
                answer.put("failed", String.valueOf(failure.getMessage()));
            }
            out.println(JSON.writeValueAsString(answer));
        }
        out.flush();
    }

    private static void answer(JsonNode question, ObjectNode answer) throws Exception {
        switch (question.get("ask").asText()) {
            case "transform" -> transform(question, answer);
            case "predicate" -> predicate(question, answer);
            case "write" -> write(question, answer);
            case "read" -> read(question, answer);
            case "write header" -> writeHeader(question, answer);
            case "read header" -> readHeader(question, answer);
            case "regex" -> regex(question, answer);
            case "format date" -> formatDate(question, answer);
            case "parse date" -> parseDate(question, answer);
            case "definition" -> definition(question, answer);
            default -> throw new IllegalArgumentException("unknown question");
        }
    }

    private static Object made(JsonNode question) throws Exception {
        return Class.forName(question.get("class").asText()).getDeclaredConstructor().newInstance();
    }

    private static Map<String, Object> config(JsonNode question) {
        Map<String, Object> config = new HashMap<>();
        for (Map.Entry<String, JsonNode> entry : question.get("config").properties()) {
            config.put(entry.getKey(), entry.getValue().textValue());
        }
        return config;
    }

    // --- plugins ----------------------------------------------------------------------------

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void transform(JsonNode question, ObjectNode answer) throws Exception {
        Transformation transformation = (Transformation) made(question);
        try {
            transformation.configure(config(question));
        } catch (Throwable failure) {
            throw new Refused(failure);
        }
        ConnectRecord result = transformation.apply(record(question.get("record")));
        answer.set("record", result == null ? JSON.nullNode() : described(result));
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void predicate(JsonNode question, ObjectNode answer) throws Exception {
        Predicate predicate = (Predicate) made(question);
        try {
            predicate.configure(config(question));
        } catch (Throwable failure) {
            throw new Refused(failure);
        }
        answer.put("is", predicate.test(record(question.get("record"))));
    }

    private static Converter converter(JsonNode question) throws Exception {
        Converter converter = (Converter) made(question);
        try {
            converter.configure(config(question), false);
        } catch (Throwable failure) {
            throw new Refused(failure);
        }
        return converter;
    }

    private static HeaderConverter headerConverter(JsonNode question) throws Exception {
        HeaderConverter converter = (HeaderConverter) made(question);
        Map<String, Object> config = config(question);
        config.put("converter.type", "header");
        try {
            converter.configure(config);
        } catch (Throwable failure) {
            throw new Refused(failure);
        }
        return converter;
    }

    private static void write(JsonNode question, ObjectNode answer) throws Exception {
        Schema schema = schema(question.get("schema"));
        Object value = value(schema, question.get("value"));
        answer.put("bytes", converter(question).fromConnectData("topic", schema, value));
    }

    private static void read(JsonNode question, ObjectNode answer) throws Exception {
        byte[] bytes = question.get("bytes").isNull() ? null : question.get("bytes").binaryValue();
        describe(answer, converter(question).toConnectData("topic", bytes));
    }

    private static void writeHeader(JsonNode question, ObjectNode answer) throws Exception {
        Schema schema = schema(question.get("schema"));
        Object value = value(schema, question.get("value"));
        HeaderConverter converter = headerConverter(question);
        answer.put("bytes", converter.fromConnectHeader("topic", "key", schema, value));
    }

    private static void readHeader(JsonNode question, ObjectNode answer) throws Exception {
        byte[] bytes = question.get("bytes").isNull() ? null : question.get("bytes").binaryValue();
        describe(answer, headerConverter(question).toConnectHeader("topic", "key", bytes));
    }

    private static void describe(ObjectNode answer, SchemaAndValue found) {
        answer.set("schema", described(found == null ? null : found.schema()));
        answer.set("value", described(found == null ? null : found.value()));
    }

    private static void definition(JsonNode question, ObjectNode answer) throws Exception {
        Class<?> owner = Class.forName(question.get("class").asText());
        ConfigDef definition;
        try {
            definition = (ConfigDef) owner.getMethod("configDef").invoke(null);
        } catch (NoSuchMethodException missing) {
            Object plugin = owner.getDeclaredConstructor().newInstance();
            definition = (ConfigDef) owner.getMethod("config").invoke(plugin);
        }
        ArrayNode keys = answer.putArray("keys");
        for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
            ConfigKeyInfo info = AbstractHerder.convertConfigKey(key);
            ObjectNode described = JSON.valueToTree(info);
            described.remove("documentation");
            keys.add(described);
        }
    }

    // --- what Java's library does -------------------------------------------------------------

    private static void regex(JsonNode question, ObjectNode answer) throws Refused {
        Pattern pattern;
        try {
            pattern = Pattern.compile(question.get("pattern").asText());
        } catch (RuntimeException failure) {
            throw new Refused(failure);
        }
        Matcher matcher = pattern.matcher(question.get("text").asText());
        answer.put("matches", matcher.matches());
        answer.put("replaced", matcher.replaceFirst(question.get("replacement").asText()));
    }

    private static SimpleDateFormat dateFormat(JsonNode question) throws Refused {
        try {
            SimpleDateFormat format = new SimpleDateFormat(question.get("pattern").asText());
            format.setTimeZone(TimeZone.getTimeZone("UTC"));
            return format;
        } catch (RuntimeException failure) {
            throw new Refused(failure);
        }
    }

    private static void formatDate(JsonNode question, ObjectNode answer) throws Refused {
        answer.put("text", dateFormat(question).format(new Date(question.get("ms").asLong())));
    }

    private static void parseDate(JsonNode question, ObjectNode answer) throws Exception {
        String text = question.get("text").asText();
        Date date = dateFormat(question).parse(text, new ParsePosition(0));
        if (date == null) {
            throw new IllegalArgumentException("does not match");
        }
        answer.put("ms", date.getTime());
    }

    // --- records ------------------------------------------------------------------------------

    private static ConnectRecord<?> record(JsonNode from) {
        Schema keySchema = schema(from.get("key_schema"));
        Schema valueSchema = schema(from.get("value_schema"));
        Object key = value(keySchema, from.get("key"));
        Object value = value(valueSchema, from.get("value"));
        JsonNode time = from.get("timestamp");
        Long timestamp = time.isNull() ? null : (Long) time.asLong();
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode header : from.get("headers")) {
            Schema schema = schema(header.get("schema"));
            headers.add(header.get("key").asText(), value(schema, header.get("value")), schema);
        }
        String topic = from.get("topic").asText();
        JsonNode partition = from.get("partition");
        if (from.get("is_sink").asBoolean()) {
            return new SinkRecord(topic, partition.asInt(), keySchema, key, valueSchema, value,
                from.get("offset").asLong(), timestamp, TimestampType.CREATE_TIME, headers);
        }
        return new SourceRecord(Map.of(), Map.of(), topic,
            partition.isNull() ? null : (Integer) partition.asInt(), keySchema, key, valueSchema,
            value, timestamp, headers);
    }

    private static ObjectNode described(ConnectRecord<?> record) {
        ObjectNode described = JSON.createObjectNode();
        described.put("topic", record.topic());
        described.put("partition", record.kafkaPartition());
        described.set("key_schema", described(record.keySchema()));
        described.set("key", described(record.key()));
        described.set("value_schema", described(record.valueSchema()));
        described.set("value", described(record.value()));
        described.put("timestamp", record.timestamp());
        ArrayNode headers = described.putArray("headers");
        for (Header header : record.headers()) {
            ObjectNode entry = headers.addObject();
            entry.put("key", header.key());
            entry.set("schema", described(header.schema()));
            entry.set("value", described(header.value()));
        }
        return described;
    }

    // --- schemas ------------------------------------------------------------------------------

    private static Schema schema(JsonNode from) {
        if (from == null || from.isNull()) {
            return null;
        }
        Schema.Type type = Schema.Type.valueOf(from.get("type").asText());
        SchemaBuilder builder = switch (type) {
            case ARRAY -> SchemaBuilder.array(schema(from.get("values")));
            case MAP -> SchemaBuilder.map(schema(from.get("keys")), schema(from.get("values")));
            default -> SchemaBuilder.type(type);
        };
        if (type == Schema.Type.STRUCT) {
            for (JsonNode field : from.get("fields")) {
                builder.field(field.get("name").asText(), schema(field.get("schema")));
            }
        }
        if (from.has("name")) {
            builder.name(from.get("name").asText());
        }
        if (from.has("version")) {
            builder.version(from.get("version").asInt());
        }
        if (from.has("doc")) {
            builder.doc(from.get("doc").asText());
        }
        if (from.has("parameters")) {
            for (Map.Entry<String, JsonNode> entry : from.get("parameters").properties()) {
                builder.parameter(entry.getKey(), entry.getValue().asText());
            }
        }
        if (from.path("optional").asBoolean()) {
            builder.optional();
        }
        if (from.has("default")) {
            builder.defaultValue(value(builder, from.get("default")));
        }
        return builder.build();
    }

    private static JsonNode described(Schema schema) {
        if (schema == null) {
            return JSON.nullNode();
        }
        ObjectNode described = JSON.createObjectNode();
        described.put("type", schema.type().name());
        if (schema.isOptional()) {
            described.put("optional", true);
        }
        if (schema.name() != null) {
            described.put("name", schema.name());
        }
        if (schema.version() != null) {
            described.put("version", schema.version());
        }
        if (schema.doc() != null) {
            described.put("doc", schema.doc());
        }
        if (schema.parameters() != null && !schema.parameters().isEmpty()) {
            ObjectNode parameters = described.putObject("parameters");
            schema.parameters().forEach(parameters::put);
        }
        if (schema.defaultValue() != null) {
            described.set("default", described(schema.defaultValue()));
        }
        if (schema.type() == Schema.Type.STRUCT) {
            ArrayNode fields = described.putArray("fields");
            for (Field field : schema.fields()) {
                ObjectNode entry = fields.addObject();
                entry.put("name", field.name());
                entry.set("schema", described(field.schema()));
            }
        }
        if (schema.type() == Schema.Type.MAP) {
            described.set("keys", described(schema.keySchema()));
        }
        if (schema.type() == Schema.Type.MAP || schema.type() == Schema.Type.ARRAY) {
            described.set("values", described(schema.valueSchema()));
        }
        return described;
    }

    // --- values -------------------------------------------------------------------------------

    private static Object value(Schema schema, JsonNode from) {
        if (from == null || from.isNull()) {
            return null;
        }
        if (from.isObject()) {
            Map.Entry<String, JsonNode> entry = from.properties().iterator().next();
            JsonNode content = entry.getValue();
            switch (entry.getKey()) {
                case "$bytes":
                    try {
                        return content.binaryValue();
                    } catch (java.io.IOException failure) {
                        throw new IllegalArgumentException(failure);
                    }
                case "$date":
                    return new Date(content.asLong());
                case "$decimal":
                    return new BigDecimal(content.asText());
                case "$float":
                    return schema != null && schema.type() == Schema.Type.FLOAT32
                        ? (Object) Float.valueOf(content.asText())
                        : (Object) Double.valueOf(content.asText());
                case "$map":
                    Map<Object, Object> map = new LinkedHashMap<>();
                    for (JsonNode pair : content) {
                        map.put(value(schema == null ? null : schema.keySchema(), pair.get(0)),
                            value(schema == null ? null : schema.valueSchema(), pair.get(1)));
                    }
                    return map;
                default:
                    Struct struct = new Struct(schema);
                    for (Map.Entry<String, JsonNode> field : content.properties()) {
                        Schema part = schema.field(field.getKey()).schema();
                        struct.put(field.getKey(), value(part, field.getValue()));
                    }
                    return struct;
            }
        }
        if (from.isArray()) {
            List<Object> list = new ArrayList<>();
            for (JsonNode item : from) {
                list.add(value(schema == null ? null : schema.valueSchema(), item));
            }
            return list;
        }
        if (from.isTextual()) {
            return from.asText();
        }
        if (from.isBoolean()) {
            return from.asBoolean();
        }
        if (schema == null) {
            return from.isIntegralNumber() ? (Object) from.asLong() : (Object) from.asDouble();
        }
        return switch (schema.type()) {
            case INT8 -> (byte) from.asInt();
            case INT16 -> (short) from.asInt();
            case INT32 -> from.asInt();
            case INT64 -> from.asLong();
            case FLOAT32 -> Float.valueOf(from.asText());
            default -> from.asDouble();
        };
    }

    private static JsonNode described(Object value) {
        if (value == null) {
            return JSON.nullNode();
        }
        ObjectNode described = JSON.createObjectNode();
        if (value instanceof Struct struct) {
            ObjectNode fields = described.putObject("$struct");
            for (Field field : struct.schema().fields()) {
                fields.set(field.name(), described(struct.getWithoutDefault(field.name())));
            }
            return described;
        }
        if (value instanceof Map<?, ?> map) {
            ArrayNode pairs = described.putArray("$map");
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                pairs.addArray().add(described(entry.getKey())).add(described(entry.getValue()));
            }
            return described;
        }
        if (value instanceof List<?> list) {
            ArrayNode items = JSON.createArrayNode();
            for (Object item : list) {
                items.add(described(item));
            }
            return items;
        }
        if (value instanceof byte[] bytes) {
            return described.put("$bytes", bytes);
        }
        if (value instanceof ByteBuffer buffer) {
            return described.put("$bytes", buffer.array());
        }
        if (value instanceof Date date) {
            return described.put("$date", date.getTime());
        }
        if (value instanceof BigDecimal decimal) {
            return described.put("$decimal", decimal.toString());
        }
        if (value instanceof Float || value instanceof Double) {
            return described.put("$float", value.toString());
        }
        return JSON.valueToTree(value);
    }
}
