// Prints what Apache Kafka's own classes make of a few records and keys; golden.json is its output.
// javac -cp "libs/*" GoldenBatches.java && java -cp "libs/*:." GoldenBatches > golden.json
// (libs: those of Apache Kafka 4.3.1)
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.utils.Utils;

public class GoldenBatches {
    static final String[] KEYS = {
        "", "a", "ab", "abc", "abcd", "hello world", "foobar", "a-little-bit-long-string", "\u0080\u0081\u00ff", "z\u00fcrich"
    };
    static final String[] NAMES = {
        "", "group", "my-transactional-id", "\u017elu\u0165ou\u010dk\u00fd", "\ud83d\ude00 smile", "polygenelubricants"
    };

    static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    static SimpleRecord[] records() {
        return new SimpleRecord[] {
            new SimpleRecord(1700000000000L, "key".getBytes(), "value".getBytes()),
            new SimpleRecord(1700000000005L, null, "no key".getBytes(), new Header[] {
                new RecordHeader("h", "1".getBytes()), new RecordHeader("n\u00fcll", (byte[]) null)
            }),
            new SimpleRecord(1699999999000L, "tombstone".getBytes(), null),
            new SimpleRecord(1700000000005L, new byte[0], "abc".repeat(40).getBytes()),
        };
    }

    static ByteBuffer appendTime() {
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(4096), RecordBatch.MAGIC_VALUE_V2, Compression.NONE,
            TimestampType.LOG_APPEND_TIME, 5L, 1700000009999L);
        for (SimpleRecord record : records())
            builder.append(record);
        return builder.build().buffer();
    }

    static void line(List<String> lines, String kind, String name, String answer) {
        lines.add(String.format("  [\"%s\", \"%s\", \"%s\"]", kind, name, answer));
    }

    public static void main(String[] arguments) {
        List<String> lines = new ArrayList<>();
        Compression[] compressions = {
            Compression.NONE, Compression.gzip().build(), Compression.snappy().build(),
            Compression.lz4().build(), Compression.zstd().build()
        };
        for (Compression compression : compressions)
            line(lines, "batch", compression.type().name, hex(MemoryRecords.withRecords(
                RecordBatch.MAGIC_VALUE_V2, 42L, compression, TimestampType.CREATE_TIME,
                -1L, (short) -1, -1, 7, false, records()).buffer()));
        line(lines, "batch", "transactional", hex(MemoryRecords.withTransactionalRecords(
            3L, Compression.NONE, 9000L, (short) 5, 2147483646, 11, records()).buffer()));
        line(lines, "batch", "append_time", hex(appendTime()));
        line(lines, "batch", "commit", hex(MemoryRecords.withEndTransactionMarker(
            99L, 1700000000000L, 3, 9000L, (short) 5,
            new EndTransactionMarker(ControlRecordType.COMMIT, 17)).buffer()));
        for (String key : KEYS) {
            byte[] bytes = key.getBytes(StandardCharsets.UTF_8);
            line(lines, "murmur2", hex(ByteBuffer.wrap(bytes)), "" + Utils.murmur2(bytes));
        }
        for (String name : NAMES)
            line(lines, "hash", hex(ByteBuffer.wrap(name.getBytes(StandardCharsets.UTF_8))), "" + name.hashCode());
        System.out.println("[\n" + String.join(",\n", lines) + "\n]");
    }
}
