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
    private static final int MEMBER_MS = 6000;  // the least session timeout that brokers allow by default

    final String transactionalId;
    final int timeoutMs;
    final boolean keyed;  // the key of a record is what its value has before "="
    private final String name;
    private final String brokers;
    private final String membership;
    private final int autoCommitMs;  // 0: members commit by calls
    private final String run;  // ends the names of groups: on a cluster that stays, earlier runs have left theirs

    Settings(String name, JsonNode request) {
        this.name = name;
        this.brokers = request.get("brokers").asText();
        this.transactionalId = request.get("transactional_id").asText();
        this.membership = request.get("membership").asText();
        this.autoCommitMs = request.get("auto_commit_ms").asInt();
        this.run = request.get("run").asText();
        this.keyed = request.get("keyed").asBoolean();
        this.timeoutMs = request.get("timeout_ms").asInt();
    }

    String group(String name) {
        return name + run;
    }

    Properties asking() {
        return common();
    }

    // A member of a share group. It is none any more when it has not polled for a while, so an abandoned one leaves.
    Properties sharing(String group) {
        Properties own = common();
        own.put("key.deserializer", StringDeserializer.class.getName());
        own.put("value.deserializer", StringDeserializer.class.getName());
        own.put("group.id", group(group));
        own.put("share.acknowledgement.mode", "explicit");
        own.put("max.poll.interval.ms", MEMBER_MS);
        own.put("fetch.max.wait.ms", 50);
        own.put("default.api.timeout.ms", (int) CALL_MS);
        return own;
    }

    // An id that clients share.
    String transactionalId(String shared) {
        return "highwater-" + shared + run;
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

    // A member of a group, which commits only by calls unless it commits automatically. One that does is none any more when it has
    // not polled for a while, so an abandoned one leaves.
    KafkaConsumer<String, String> member(String group, String isolation) {
        Properties own = consuming(isolation);
        own.put("group.id", group(group));
        own.put("auto.offset.reset", "earliest");
        if (autoCommitMs > 0) {
            own.put("enable.auto.commit", true);
            own.put("auto.commit.interval.ms", autoCommitMs);
            own.put("max.poll.interval.ms", MEMBER_MS);
        }
        if (membership.equals("consumer")) {
            own.put("group.protocol", "consumer");  // KIP-848: the coordinator says how long a session lasts
            return new KafkaConsumer<>(own);
        }
        own.put("session.timeout.ms", MEMBER_MS);
        own.put("heartbeat.interval.ms", 500);
        if (membership.equals("static")) own.put("group.instance.id", name);
        if (membership.equals("cooperative")) {
            own.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
        }
        return new KafkaConsumer<>(own);
    }

    KafkaConsumer<String, String> consumer(String isolation) {
        return new KafkaConsumer<>(consuming(isolation));
    }

    private Properties consuming(String isolation) {
        Properties own = common();
        own.put("key.deserializer", StringDeserializer.class.getName());
        own.put("value.deserializer", StringDeserializer.class.getName());
        own.put("group.id", "highwater");
        own.put("enable.auto.commit", false);
        own.put("auto.offset.reset", "none");
        own.put("fetch.max.wait.ms", 50);
        own.put("isolation.level", isolation);
        own.put("default.api.timeout.ms", timeoutMs);
        return own;
    }
}
