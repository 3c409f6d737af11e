import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Scanner;
import java.util.UUID;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.connect.json.JsonDeserializer;
import org.apache.kafka.connect.json.JsonSerializer;
import com.fasterxml.jackson.databind.ObjectMapper;

/** One line: what kind, a value as text, and bytes. The answer: its bytes, and the bytes' value. */
public class SerdesOfJava {
    public static void main(String[] arguments) throws Exception {
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            String[] parts = lines.nextLine().split("\t", -1);
            String text = new String(Base64.getDecoder().decode(parts[1]), StandardCharsets.UTF_8);
            byte[] data = Base64.getDecoder().decode(parts[2]);
            byte[] written = write(parts[0], text);
            String read = read(parts[0], data);
            System.out.println(encode(written) + "\t" + encode(read.getBytes(StandardCharsets.UTF_8)));
        }
    }

    static String encode(byte[] data) {
        return Base64.getEncoder().encodeToString(data);
    }

    static byte[] write(String kind, String text) throws Exception {
        switch (kind) {
            case "string": return new StringSerializer().serialize("t", text);
            case "bytes": return new ByteArraySerializer().serialize("t", text.getBytes(StandardCharsets.UTF_8));
            case "short": return new ShortSerializer().serialize("t", Short.valueOf(text));
            case "int": return new IntegerSerializer().serialize("t", Integer.valueOf(text));
            case "long": return new LongSerializer().serialize("t", Long.valueOf(text));
            case "float": return new FloatSerializer().serialize("t", Float.valueOf(text));
            case "double": return new DoubleSerializer().serialize("t", Double.valueOf(text));
            case "boolean": return new BooleanSerializer().serialize("t", Boolean.valueOf(text));
            case "uuid": return new UUIDSerializer().serialize("t", UUID.fromString(text));
            case "json": return new JsonSerializer().serialize("t", new ObjectMapper().readTree(text));
            default: throw new IllegalArgumentException(kind);
        }
    }

    static String read(String kind, byte[] data) {
        switch (kind) {
            case "string": return new StringDeserializer().deserialize("t", data);
            case "bytes": return new String(new ByteArrayDeserializer().deserialize("t", data), StandardCharsets.UTF_8);
            case "short": return new ShortDeserializer().deserialize("t", data).toString();
            case "int": return new IntegerDeserializer().deserialize("t", data).toString();
            case "long": return new LongDeserializer().deserialize("t", data).toString();
            case "float": return new FloatDeserializer().deserialize("t", data).toString();
            case "double": return new DoubleDeserializer().deserialize("t", data).toString();
            case "boolean": return new BooleanDeserializer().deserialize("t", data).toString();
            case "uuid": return new UUIDDeserializer().deserialize("t", data).toString();
            case "json": return new JsonDeserializer().deserialize("t", data).toString();
            default: throw new IllegalArgumentException(kind);
        }
    }
}
