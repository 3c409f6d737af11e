// Kafka's SCRAM server, asked by lines of JSON; one line of JSON for each.
//
// {"mechanism": "SCRAM-SHA-256", "user": "a", "password": "p", "salt": "base64", "iterations": 4096,
//  "first": "n,,n=a,r=x", "guess": "p", "last": "c=biws,r={nonce},p={proof}"}
//
// The client's proof is made of `guess` and of the bytes that were sent, as RFC 5802 has it.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.CallbackHandler;
import javax.security.auth.callback.NameCallback;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.common.security.scram.ScramCredentialCallback;
import org.apache.kafka.common.security.scram.internals.ScramFormatter;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.scram.internals.ScramSaslServer;

public class ScramServer {
    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String proof(ScramFormatter formatter, byte[] salted, String message) throws Exception {
        byte[] key = formatter.clientKey(salted);
        byte[] signature = formatter.hmac(formatter.storedKey(key), bytes(message));
        return Base64.getEncoder().encodeToString(ScramFormatter.xor(key, signature));
    }

    static void talk(JsonNode one, ObjectNode answer) throws Exception {
        ScramMechanism mechanism = ScramMechanism.forMechanismName(one.get("mechanism").asText());
        ScramFormatter formatter = new ScramFormatter(mechanism);
        byte[] salt = Base64.getDecoder().decode(one.get("salt").asText());
        int iterations = one.get("iterations").asInt();
        byte[] salted = formatter.saltedPassword(one.get("password").asText(), salt, iterations);
        byte[] stored = formatter.storedKey(formatter.clientKey(salted));
        byte[] server = formatter.serverKey(salted);
        answer.put("stored", stored).put("server", server);
        String known = one.get("user").asText();
        CallbackHandler find = callbacks -> {
            String asked = "";
            for (Callback each : callbacks) {
                if (each instanceof NameCallback name) {
                    asked = name.getDefaultName();
                } else if (each instanceof ScramCredentialCallback found && asked.equals(known)) {
                    found.scramCredential(new ScramCredential(salt, stored, server, iterations));
                }
            }
        };
        ScramSaslServer login = new ScramSaslServer(mechanism, Map.of(), find);
        String first = one.get("first").asText();
        answer.put("refused", "first");
        String reply = new String(login.evaluateResponse(bytes(first)), StandardCharsets.UTF_8);
        answer.put("reply", reply).put("refused", "last");
        String last = one.get("last").asText();
        last = last.replace("{nonce}", reply.substring(2, reply.indexOf(",s=")));
        if (last.contains("{proof}")) {
            byte[] guess = formatter.saltedPassword(one.get("guess").asText(), salt, iterations);
            String bare = first.substring(first.indexOf(',', 2) + 1);
            String signed = bare + "," + reply + "," + last.substring(0, last.indexOf(",p="));
            last = last.replace("{proof}", proof(formatter, guess, signed));
        }
        answer.put("last", last);
        byte[] end = login.evaluateResponse(bytes(last));
        answer.put("end", new String(end, StandardCharsets.UTF_8)).put("refused", "");
        answer.put("user", login.getAuthorizationID());
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line; (line = lines.readLine()) != null; ) {
            ObjectNode answer = mapper.createObjectNode();
            try {
                talk(mapper.readTree(line), answer);
            } catch (Exception refused) {
                answer.put("why", refused.getClass().getSimpleName());
            }
            System.out.println(mapper.writeValueAsString(answer));
        }
    }
}
