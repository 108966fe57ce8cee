// Produces to partitions, and reads of them, as clients/kafka.py makes them with librdkafka.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.TimeoutException;

final class Logs {
    private static final int OPEN_S = 30;
    private static final int BATCH_MS = 5;  // the values of one produce travel as one batch

    private final Settings settings;
    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();  // by acks, retries, idempotent
    private KafkaConsumer<String, String> consumer;

    Logs(Settings settings) {
        this.settings = settings;
    }

    // Reaches the cluster once as consumer and as producer, so that their classes are loaded.
    void open() {
        reader().listTopics(Duration.ofSeconds(OPEN_S));
        new KafkaProducer<String, String>(settings.producing()).close(Duration.ZERO);
    }

    void produce(JsonNode call, ObjectNode heard) {
        boolean idempotent = call.get("idempotent").asBoolean();
        int retries = call.get("retries").asInt();
        String key = call.get("acks").asText() + " " + retries + " " + idempotent;
        KafkaProducer<String, String> producer = producers.computeIfAbsent(key, unused -> producer(call, idempotent, retries));
        TopicPartition to = partition(call);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode value : call.get("values")) {
            String own = settings.keyed ? value.asText().split("=", 2)[0] : null;
            sent.add(producer.send(new ProducerRecord<>(to.topic(), to.partition(), own, value.asText())));
        }
        ArrayNode offsets = Worker.JSON.createArrayNode();
        int failed = 0;
        for (Future<RecordMetadata> one : sent) {
            try {
                RecordMetadata at = one.get(settings.timeoutMs + Settings.CALL_MS, TimeUnit.MILLISECONDS);
                if (at.hasOffset()) offsets.add(at.offset());
            } catch (Exception error) {
                if (failed++ == 0) Worker.fail(heard, error);
            }
        }
        heard.put("attempts", idempotent ? 1 : 1 + retries);
        if (failed == 0) {
            if (offsets.size() == sent.size()) heard.set("offsets", offsets);  // with acks=0 there are none
            return;
        }
        // Earlier attempts, and other values of the operation, may have had another result.
        if (idempotent || retries > 0 || failed < sent.size()) heard.putArray("earlier").add("_RETRIED");
        // An idempotent producer may have had a fatal error; any other one drops what it did not deliver.
        if (idempotent) producers.remove(key).close(Duration.ZERO);
    }

    private KafkaProducer<String, String> producer(JsonNode call, boolean idempotent, int retries) {
        Properties own = settings.producing();
        own.put("acks", call.get("acks").asText());
        own.put("enable.idempotence", idempotent);
        if (!idempotent) own.put("retries", retries);
        own.put("linger.ms", BATCH_MS);
        own.put("max.block.ms", settings.timeoutMs);
        own.put("delivery.timeout.ms", settings.timeoutMs + BATCH_MS);
        return new KafkaProducer<>(own);
    }

    void bound(JsonNode call, boolean latest, ObjectNode heard) {
        List<TopicPartition> of = List.of(partition(call));
        Duration limit = Duration.ofMillis(settings.timeoutMs);
        heard.put("offset", (latest ? reader().endOffsets(of, limit) : reader().beginningOffsets(of, limit)).get(of.get(0)));
    }

    // Returns records that were fetched after the call began: the partition is assigned anew. A consumer does not tell that a
    // partition has no more, so its end is asked for first.
    void poll(JsonNode call, ObjectNode heard) {
        TopicPartition of = partition(call);
        long from = call.get("offset").asLong();
        KafkaConsumer<String, String> reader = reader();
        reader.assign(List.of(of));
        try {
            reader.seek(of, from);
            long end = reader.endOffsets(List.of(of), Duration.ofMillis(settings.timeoutMs)).get(of);
            if (end < from) throw new OffsetOutOfRangeException("the log ends at " + end);
            long limit = System.nanoTime() + settings.timeoutMs * 1_000_000L;
            ArrayNode records = Worker.JSON.createArrayNode();
            while (records.isEmpty() && reader.position(of) < end) {
                for (ConsumerRecord<String, String> record : reader.poll(Duration.ofMillis(Settings.POLL_MS))) {
                    if (records.size() == call.get("max_records").asInt()) break;
                    records.addArray().add(record.offset()).add(record.value()).add(record.leaderEpoch().orElse(-1));
                }
                if (records.isEmpty() && System.nanoTime() > limit) throw new TimeoutException();
            }
            heard.set("records", records);
        } finally {
            reader.assign(List.of());
        }
    }

    private KafkaConsumer<String, String> reader() {
        if (consumer == null) consumer = settings.consumer("read_uncommitted");
        return consumer;
    }

    void close() {
        if (consumer != null) consumer.close(Duration.ofMillis(Settings.CLOSE_MS));
        for (KafkaProducer<String, String> producer : producers.values()) producer.close(Duration.ZERO);
    }

    static TopicPartition partition(JsonNode call) {
        String name = call.get("tp").asText();
        int at = name.lastIndexOf('-');
        return new TopicPartition(name.substring(0, at), Integer.parseInt(name.substring(at + 1)));
    }
}
