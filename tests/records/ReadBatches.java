// Reads one batch a line, as hex, through Apache Kafka's own classes, and says what it is.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;

public class ReadBatches {
    static String hex(ByteBuffer buffer) {
        if (buffer == null)
            return "null";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    static String describe(RecordBatch batch) {
        batch.ensureValid();
        StringBuilder said = new StringBuilder(String.join(" ",
            batch.compressionType().name, "" + batch.baseOffset(), "" + batch.lastOffset(),
            "" + batch.maxTimestamp(), "" + batch.producerId(), "" + batch.producerEpoch(),
            "" + batch.baseSequence(), "" + batch.lastSequence(), "" + batch.isTransactional(),
            "" + batch.isControlBatch(), "" + batch.deleteHorizonMs().orElse(-1)));
        for (org.apache.kafka.common.record.internal.Record record : batch) {
            record.ensureValid();
            said.append(" ").append(record.offset()).append(",").append(record.timestamp())
                .append(",").append(hex(record.key())).append(",").append(hex(record.value()));
            for (Header header : record.headers())
                said.append(",").append(hex(ByteBuffer.wrap(header.key().getBytes(StandardCharsets.UTF_8))))
                    .append("=").append(header.value() == null ? "null" : hex(ByteBuffer.wrap(header.value())));
        }
        return said.toString();
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(line));
            StringBuilder said = new StringBuilder();
            for (RecordBatch batch : MemoryRecords.readableRecords(bytes).batches())
                said.append(said.length() == 0 ? "" : " | ").append(describe(batch));
            System.out.println(said);
        }
    }
}
