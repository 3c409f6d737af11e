// Kafka's StandardAuthorizer, asked by lines of JSON; one line of 0 and 1 for each.
//
// {"super": "User:a", "default": false,
//  "acls": [[type, name, pattern, principal, host, operation, permission], ...],
//  "asked": [[principal, host, operation, type, name], ...],
//  "some": [[principal, host, operation, type], ...]}

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

public class Authorizer {
    record Client(KafkaPrincipal principal, InetAddress clientAddress)
        implements AuthorizableRequestContext {
        public String listenerName() { return "SASL"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.SASL_PLAINTEXT; }
        public int requestType() { return 0; }
        public int requestVersion() { return 3; }
        public String clientId() { return "c"; }
        public int correlationId() { return 1; }
    }

    static Client client(JsonNode asked) throws Exception {
        String[] principal = asked.get(0).asText().split(":", 2);
        return new Client(
            new KafkaPrincipal(principal[0], principal[1]),
            InetAddress.getByName(asked.get(1).asText()));
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line; (line = lines.readLine()) != null; ) {
            JsonNode one = mapper.readTree(line);
            StandardAuthorizer authorizer = new StandardAuthorizer();
            authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
            authorizer.configure(Map.of(
                "node.id", "1",
                StandardAuthorizer.SUPER_USERS_CONFIG, one.get("super").asText(),
                StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG,
                one.get("default").asText()));
            Map<Uuid, StandardAcl> acls = new HashMap<>();
            for (JsonNode acl : one.get("acls")) {
                acls.put(Uuid.randomUuid(), new StandardAcl(
                    ResourceType.fromCode((byte) acl.get(0).asInt()),
                    acl.get(1).asText(),
                    PatternType.fromCode((byte) acl.get(2).asInt()),
                    acl.get(3).asText(),
                    acl.get(4).asText(),
                    AclOperation.fromCode((byte) acl.get(5).asInt()),
                    AclPermissionType.fromCode((byte) acl.get(6).asInt())));
            }
            authorizer.loadSnapshot(acls);
            authorizer.completeInitialLoad();
            StringBuilder answers = new StringBuilder();
            for (JsonNode asked : one.get("asked")) {
                Action action = new Action(
                    AclOperation.fromCode((byte) asked.get(2).asInt()),
                    new ResourcePattern(
                        ResourceType.fromCode((byte) asked.get(3).asInt()),
                        asked.get(4).asText(),
                        PatternType.LITERAL),
                    1, false, false);
                AuthorizationResult result =
                    authorizer.authorize(client(asked), List.of(action)).get(0);
                answers.append(result == AuthorizationResult.ALLOWED ? '1' : '0');
            }
            for (JsonNode asked : one.get("some")) {
                AuthorizationResult result = authorizer.authorizeByResourceType(
                    client(asked),
                    AclOperation.fromCode((byte) asked.get(2).asInt()),
                    ResourceType.fromCode((byte) asked.get(3).asInt()));
                answers.append(result == AuthorizationResult.ALLOWED ? '1' : '0');
            }
            System.out.println(answers);
        }
    }
}
