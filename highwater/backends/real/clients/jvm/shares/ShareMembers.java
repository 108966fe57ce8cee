// Members of share groups (KIP-932), which acknowledge each record that they polled. An acknowledgement is confirmed by partition.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

final class ShareMembers implements Shares {
    private static final Duration POLL = Duration.ofMillis(500);

    private final Settings settings;
    private final List<KafkaShareConsumer<String, String>> abandoned = new ArrayList<>();
    private final List<ConsumerRecord<String, String>> held = new ArrayList<>();
    private KafkaShareConsumer<String, String> consumer;
    private boolean fromTheBeginning;  // the group is told once to begin with the first record

    ShareMembers(Settings settings) {
        this.settings = settings;
    }

    @Override
    public void perform(JsonNode call, ObjectNode heard) throws Exception {
        switch (call.get("share").asText()) {
            case "share-poll": poll(call, heard); break;
            case "share-acknowledge": acknowledge(call, heard); break;
            case "share-abandon": abandon(); break;
            default: close();
        }
    }

    // Nobody tells the broker: the locks of the records run out.
    private void abandon() {
        if (consumer != null) abandoned.add(consumer);
        consumer = null;
        held.clear();
    }

    @Override
    public void close() {
        abandon();
        for (KafkaShareConsumer<String, String> each : abandoned) {
            try {
                each.close(Duration.ofMillis(Settings.CALL_MS));
            } catch (KafkaException error) {
                // The session of the member runs out.
            }
        }
        abandoned.clear();
    }

    private void poll(JsonNode call, ObjectNode heard) throws Exception {
        String group = call.get("group").asText();
        ObjectNode told = heard.putObject("told").put("group", group);
        join(group, call.get("reads"));
        for (ConsumerRecord<String, String> record : consumer.poll(POLL)) held.add(record);
        held.sort(Comparator.comparing((ConsumerRecord<String, String> r) -> of(r)).thenComparing(ConsumerRecord::offset));
        ObjectNode records = told.putObject("records");
        ArrayNode positions = heard.putArray("positions");
        for (ConsumerRecord<String, String> record : held) {
            int deliveries = record.deliveryCount().map(Short::intValue).orElse(0);
            records.withArray(of(record)).addArray().add(record.offset()).add(record.value()).add(deliveries);
        }
        if (!held.isEmpty()) {
            ConsumerRecord<String, String> last = held.get(held.size() - 1);
            positions.addArray().add(last.topic()).add(last.partition()).add(last.offset() + 1);
        }
        consumer.acquisitionLockTimeoutMs().ifPresent(ms -> told.put("lock_ms", ms));
    }

    private void join(String group, JsonNode reads) throws Exception {
        if (!fromTheBeginning) beginAtTheFirstRecord(settings.group(group));
        fromTheBeginning = true;
        if (consumer == null) {
            consumer = new KafkaShareConsumer<>(settings.sharing(group));
            Set<String> topics = new TreeSet<>();
            for (JsonNode read : reads) topics.add(read.get(0).asText());
            consumer.subscribe(topics);
        }
    }

    private void beginAtTheFirstRecord(String group) throws Exception {
        ConfigResource of = new ConfigResource(ConfigResource.Type.GROUP, group);
        ConfigEntry earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
        try (Admin admin = Admin.create(settings.asking())) {
            admin.incrementalAlterConfigs(Map.of(of, List.of(new AlterConfigOp(earliest, AlterConfigOp.OpType.SET))))
                    .all()
                    .get(Settings.CALL_MS, TimeUnit.MILLISECONDS);
        }
    }

    // The answer tells every acknowledgement, and the partitions that confirmed theirs.
    private void acknowledge(JsonNode call, ObjectNode heard) throws Exception {
        ObjectNode told = heard.putObject("told").put("group", call.get("group").asText());
        if (consumer == null) {
            heard.put("attempts", 0).put("error", "_STATE");
            return;
        }
        ObjectNode asked = told.putObject("acknowledged");
        ArrayNode confirmed = told.putArray("confirmed");
        JsonNode types = call.get("acknowledges");
        List<ConsumerRecord<String, String>> records = new ArrayList<>(held);
        held.clear();
        try {
            for (int at = 0; at < records.size(); at++) {
                ConsumerRecord<String, String> record = records.get(at);
                String type = types.get(at % types.size()).asText();
                consumer.acknowledge(record, AcknowledgeType.valueOf(type.toUpperCase(Locale.ROOT)));
                asked.withArray(of(record)).addArray().add(record.offset()).add(type);
            }
            Map<TopicIdPartition, Optional<KafkaException>> results = consumer.commitSync(Duration.ofMillis(Settings.CALL_MS));
            for (Map.Entry<TopicIdPartition, Optional<KafkaException>> result : results.entrySet()) {
                if (result.getValue().isPresent()) Worker.fail(heard, result.getValue().get());
                else confirmed.add(result.getKey().topicPartition().toString());
            }
            if (confirmed.size() < asked.size() && !heard.has("error")) heard.put("error", "_UNCONFIRMED");
        } catch (KafkaException | IllegalStateException error) {
            Worker.fail(heard, error);
            abandon();
        }
    }

    private static String of(ConsumerRecord<String, String> record) {
        return new TopicPartition(record.topic(), record.partition()).toString();
    }
}
