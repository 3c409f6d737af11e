import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;

/** For each line of realm, rules and principal with tabs between them (rules with ;;): the user,
 *  behind "=", or "!" if there is none. */
public class ShortNameAnswers {
    public static void main(String[] args) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new java.io.PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            var parts = line.split("\t", -1);
            try {
                var rules = List.of(parts[1].split(";;", -1));
                var namer = KerberosShortNamer.fromUnparsedRules(parts[0], rules);
                out.println("=" + namer.shortName(KerberosName.parse(parts[2])));
            } catch (Exception error) {
                out.println("!");
            }
        }
        out.flush();
    }
}
