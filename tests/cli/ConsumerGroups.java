// Runs kafka-consumer-groups with the words of each line (tabs between them), in one JVM, and says
// what it prints in one line.
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;

public class ConsumerGroups {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteArrayOutputStream told = new ByteArrayOutputStream();
            System.setOut(new PrintStream(told, true, StandardCharsets.UTF_8));
            ConsumerGroupCommand.main(line.split("\t"));
            out.println(told.toString(StandardCharsets.UTF_8).replace("\n", "\\n"));
        }
    }
}
