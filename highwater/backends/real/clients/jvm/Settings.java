// What all producers and consumers of one client are given.

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

final class Settings {
    static final long CALL_MS = 5000;  // for each request of a transaction, and beyond the request timeout of a produce
    static final int POLL_MS = 100;
    static final int CLOSE_MS = 1000;

    final String transactionalId;
    final int timeoutMs;
    private final String name;
    private final String brokers;

    Settings(String name, JsonNode request) {
        this.name = name;
        this.brokers = request.get("brokers").asText();
        this.transactionalId = request.get("transactional_id").asText();
        this.timeoutMs = request.get("timeout_ms").asInt();
    }

    private Properties common() {
        Properties own = new Properties();
        own.put("bootstrap.servers", brokers);
        own.put("client.id", name);
        own.put("request.timeout.ms", timeoutMs);
        own.put("reconnect.backoff.ms", 50);
        own.put("reconnect.backoff.max.ms", 500);
        own.put("retry.backoff.ms", 50);
        own.put("metadata.max.age.ms", 5000);
        return own;
    }

    Properties producing() {
        Properties own = common();
        own.put("key.serializer", StringSerializer.class.getName());
        own.put("value.serializer", StringSerializer.class.getName());
        return own;
    }

    KafkaConsumer<String, String> consumer(String isolation) {
        Properties own = common();
        own.put("key.deserializer", StringDeserializer.class.getName());
        own.put("value.deserializer", StringDeserializer.class.getName());
        own.put("group.id", "highwater");
        own.put("enable.auto.commit", false);
        own.put("auto.offset.reset", "none");
        own.put("fetch.max.wait.ms", 50);
        own.put("isolation.level", isolation);
        own.put("default.api.timeout.ms", timeoutMs);
        return new KafkaConsumer<>(own);
    }
}
