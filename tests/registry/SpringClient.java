// The registry client of Spring Cloud against the registry at args[0]: registers args[1] twice, reads
// it back by its id and by its version, and asks for a schema that is not there.

import org.springframework.cloud.schema.registry.SchemaNotFoundException;
import org.springframework.cloud.schema.registry.SchemaReference;
import org.springframework.cloud.schema.registry.client.ConfluentSchemaRegistryClient;

public class SpringClient {
    public static void main(String[] args) {
        var client = new ConfluentSchemaRegistryClient();
        client.setEndpoint(args[0]);
        var first = client.register("spring-value", "avro", args[1]);
        var again = client.register("spring-value", "avro", args[1]);
        int version = first.getSchemaReference().getVersion();
        tell(first.getId() == again.getId() ? "same" : "other");
        tell(client.fetch(first.getId()));
        tell(client.fetch(new SchemaReference("spring-value", version, "avro")));
        try {
            tell(client.fetch(999_999));
        } catch (SchemaNotFoundException error) {
            tell("not found");
        }
    }

    // Its log goes to the same place.
    static void tell(String line) {
        System.out.println("> " + line);
    }
}
