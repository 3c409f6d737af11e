// Kafka's networks in access rules, asked by lines: {"network": "10.0.0.0/8", "hosts": ["10.1.2.3"]}.
// A line answers with 0 or 1 for whether a rule may have that host, and one for each client.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.kafka.server.authorizer.internals.CidrUtils;

public class Networks {
    static boolean isValid(String network) {
        try {
            CidrUtils.validate(network);
            return true;
        } catch (IllegalArgumentException refused) {
            return false;
        }
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line; (line = lines.readLine()) != null; ) {
            JsonNode asked = mapper.readTree(line);
            String network = asked.get("network").asText();
            StringBuilder answer = new StringBuilder(isValid(network) ? "1" : "0");
            for (JsonNode host : asked.get("hosts"))
                answer.append(CidrUtils.isInRange(host.asText(), network) ? "1" : "0");
            System.out.println(answer);
        }
    }
}
