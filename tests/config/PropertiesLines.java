import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.StringReader;
import java.util.Properties;
import java.util.TreeMap;

/**
 * Reads texts, one a line, each as the hexadecimal digits of its UTF-16 code units. Answers for
 * each what java.util.Properties makes of it: "key:value" pairs in the same digits, ordered, or "!"
 * where it refuses; then, after a "|", the lines that Properties.store writes for them.
 */
public final class PropertiesLines {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "US-ASCII"));
        PrintStream out = new PrintStream(System.out, false, "US-ASCII");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(fromDigits(line)));
        }
        out.flush();
    }

    private static String answer(String text) throws Exception {
        Properties properties = new Properties();
        try {
            properties.load(new StringReader(text));
        } catch (IllegalArgumentException error) {
            return "!";
        }
        StringBuilder answer = new StringBuilder();
        TreeMap<Object, Object> ordered = new TreeMap<>(properties);
        for (var entry : ordered.entrySet()) {
            answer.append(toDigits((String) entry.getKey())).append(':');
            answer.append(toDigits((String) entry.getValue())).append(' ');
        }
        answer.append('|');
        for (var entry : ordered.entrySet()) {
            Properties single = new Properties();
            single.put(entry.getKey(), entry.getValue());
            ByteArrayOutputStream stored = new ByteArrayOutputStream();
            single.store(stored, null);
            String written = stored.toString("ISO-8859-1");
            String end = System.lineSeparator();
            int start = written.indexOf(end) + end.length();
            int length = written.length() - end.length();
            answer.append(toDigits(written.substring(start, length))).append(' ');
        }
        return answer.toString();
    }

    private static String fromDigits(String digits) {
        StringBuilder text = new StringBuilder();
        for (int at = 0; at < digits.length(); at += 4) {
            text.append((char) Integer.parseInt(digits.substring(at, at + 4), 16));
        }
        return text.toString();
    }

    private static String toDigits(String text) {
        StringBuilder digits = new StringBuilder();
        for (int at = 0; at < text.length(); at++) {
            digits.append(String.format("%04x", (int) text.charAt(at)));
        }
        return digits.toString();
    }
}
