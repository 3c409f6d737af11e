// Kafka's validator of tokens, asked by lines; one line for each: the user, or "-".
//
// The first line has the path of a JWKS, the issuer and the audiences, with blanks between them.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator;
import org.apache.kafka.common.security.oauthbearer.JwtValidator;

public class TokenValidator {
    static JwtValidator validator(String[] words) {
        String keys = "file:" + words[0];
        System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", keys);
        System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.files", words[0]);
        Map<String, Object> settings = new HashMap<>();
        settings.put("sasl.oauthbearer.jwks.endpoint.url", keys);
        settings.put("sasl.oauthbearer.expected.issuer", words[1]);
        settings.put("sasl.oauthbearer.expected.audience",
            List.of(Arrays.copyOfRange(words, 2, words.length)));
        settings.put("sasl.oauthbearer.clock.skew.seconds", 30);
        settings.put("sasl.oauthbearer.scope.claim.name", "scope");
        settings.put("sasl.oauthbearer.sub.claim.name", "sub");
        JwtValidator made = new DefaultJwtValidator();
        made.configure(settings, "OAUTHBEARER", List.of(new AppConfigurationEntry(
            "x", AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, Map.of())));
        return made;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        JwtValidator validator = validator(lines.readLine().split(" "));
        System.out.println("ready");
        for (String line; (line = lines.readLine()) != null; ) {
            String answer;
            try {
                answer = "=" + validator.validate(line).principalName();
            } catch (RuntimeException refused) {
                answer = "-";
            }
            System.out.println(answer);
        }
    }
}
