// Members of consumer groups, as clients/members.py makes them with librdkafka: a member is subscribed, and commits by calls, in the
// transactions of a producer, or automatically. A poll tells which partitions were assigned and revoked during it.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

final class Members implements ConsumerRebalanceListener {
    private static final int GROUP_POLL_MS = 500;

    private final Settings settings;
    private final TransactionalProducer producer;
    private KafkaConsumer<String, String> consumer;
    private ObjectNode told;  // of the call in progress

    Members(Settings settings, TransactionalProducer producer) {
        this.settings = settings;
        this.producer = producer;
    }

    void poll(JsonNode call, ObjectNode heard) {
        told = heard.putObject("told").put("group", call.get("group").asText());
        Map<TopicPartition, Long> positions = new HashMap<>();
        ObjectNode records = polled(call, "read_uncommitted", positions);
        told.set("records", records);
        enter(positions, heard);
        heard.put("at_end", atEnd());
    }

    // Polls, sends a result of each record, and commits both with the group's positions; after an error it reads them again.
    void process(JsonNode call, ObjectNode heard) {
        told = heard.putObject("told").put("group", call.get("group").asText());
        heard.put("attempts", 0);
        Map<TopicPartition, Long> positions = new HashMap<>();
        Map<ArrayNode, Future<RecordMetadata>> sent = new IdentityHashMap<>();
        try {
            ObjectNode records = polled(call, "read_committed", positions);
            told.set("records", records);
            if (!positions.isEmpty()) {
                KafkaProducer<String, String> ready = producer.ready();
                ready.beginTransaction();
                sendResults(ready, call.get("writes"), records, told.putObject("results"), sent);
                Thread.sleep(call.get("work_ms").asInt());
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                ObjectNode wanted = told.putObject("positions");
                positions.forEach((of, offset) -> {
                    offsets.put(of, new OffsetAndMetadata(offset));
                    wanted.put(of.toString(), offset);
                });
                if (call.get("aborts").asBoolean()) {
                    ready.flush();  // an abort drops what was not sent, and would show nothing
                    ready.abortTransaction();
                    heard.put("error", "ABORTED");
                } else {
                    ready.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                    heard.put("attempts", 1);
                    ready.commitTransaction();
                }
            }
        } catch (Exception error) {
            Worker.fail(heard, error);
            producer.giveUp();
        }
        TransactionalProducer.enterOffsets(sent, heard);
        if (heard.has("error")) rewind();
        else {
            enter(positions, heard);
            heard.put("at_end", atEnd());
        }
    }

    void commit(JsonNode call, ObjectNode heard) {
        if (consumer == null) {
            heard.put("attempts", 0).put("error", "_STATE");
            return;
        }
        Duration limit = Duration.ofMillis(Settings.CALL_MS);
        consumer.commitSync(Map.of(partition(call), new OffsetAndMetadata(call.get("offset").asLong())), limit);
    }

    // A member that never polled asks by a consumer of its own.
    void committed(JsonNode call, ObjectNode heard) {
        KafkaConsumer<String, String> asks = consumer;
        if (asks == null) asks = settings.member(call.get("group").asText(), "read_uncommitted");
        try {
            TopicPartition of = partition(call);
            OffsetAndMetadata position = asks.committed(Set.of(of), Duration.ofMillis(Settings.CALL_MS)).get(of);
            if (position != null) heard.put("offset", position.offset());
        } finally {
            if (asks != consumer) asks.close(Duration.ofMillis(Settings.CLOSE_MS));
        }
    }

    // As committed, of several partitions.
    void positions(JsonNode call, ObjectNode heard) {
        String group = call.get("group").asText();
        KafkaConsumer<String, String> asks = consumer;
        if (asks == null) asks = settings.member(group, "read_uncommitted");
        try {
            Set<TopicPartition> wanted = new HashSet<>();
            for (JsonNode read : call.get("reads")) wanted.add(new TopicPartition(read.get(0).asText(), read.get(1).asInt()));
            ObjectNode committed = heard.putObject("told").put("group", group).putObject("committed");
            asks.committed(wanted, Duration.ofMillis(Settings.CALL_MS)).forEach((of, position) -> {
                if (position == null) committed.putNull(of.toString());
                else committed.put(of.toString(), position.offset());
            });
        } finally {
            if (asks != consumer) asks.close(Duration.ofMillis(Settings.CLOSE_MS));
        }
    }

    // The coordinator hears nothing: the member is none any more when it has not polled for a while.
    void abandon() {
        consumer = null;
    }

    void close() {
        if (consumer != null) consumer.close(Duration.ofMillis(Settings.CALL_MS));
        consumer = null;
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        note("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        note("revoked", partitions);
    }

    private void note(String what, Collection<TopicPartition> partitions) {
        for (TopicPartition of : partitions) told.withArray(what).add(of.toString());
    }

    // The records of one poll by partition, and the positions behind them.
    private ObjectNode polled(JsonNode call, String isolation, Map<TopicPartition, Long> positions) {
        if (consumer == null) {
            consumer = settings.member(call.get("group").asText(), isolation);
            Set<String> topics = new TreeSet<>();
            for (JsonNode read : call.get("reads")) topics.add(read.get(0).asText());
            consumer.subscribe(topics, this);
        }
        ObjectNode records = Worker.JSON.createObjectNode();
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(GROUP_POLL_MS))) {
            TopicPartition of = new TopicPartition(record.topic(), record.partition());
            positions.put(of, record.offset() + 1);
            records.withArray(of.toString()).addArray().add(record.offset()).add(record.value());
        }
        return records;
    }

    private static void sendResults(
            KafkaProducer<String, String> ready,
            JsonNode writes,
            ObjectNode records,
            ObjectNode results,
            Map<ArrayNode, Future<RecordMetadata>> sent) {
        records.fields().forEachRemaining(of -> {
            int number = Integer.parseInt(of.getKey().substring(of.getKey().lastIndexOf('-') + 1));
            JsonNode to = writes.get(number % writes.size());
            TopicPartition target = new TopicPartition(to.get(0).asText(), to.get(1).asInt());
            for (JsonNode record : of.getValue()) {
                String result = of.getKey() + "@" + record.get(0).asLong() + "=" + record.get(1).asText();
                ArrayNode placed = results.withArray(target.toString()).addArray().addNull().add(result);
                sent.put(placed, ready.send(new ProducerRecord<>(target.topic(), target.partition(), null, result)));
            }
        });
    }

    // Begins again at the positions that the group committed, in the partitions that the member has.
    private void rewind() {
        if (consumer == null) return;
        try {
            Set<TopicPartition> mine = consumer.assignment();
            Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(mine, Duration.ofMillis(Settings.CALL_MS));
            for (TopicPartition of : mine) {
                if (committed.get(of) == null) consumer.seekToBeginning(List.of(of));
                else consumer.seek(of, committed.get(of).offset());
            }
        } catch (RuntimeException error) {
            close();  // the next poll joins as a new member
        }
    }

    // Whether the member has partitions, and read them all to their ends.
    private boolean atEnd() {
        List<TopicPartition> mine = new ArrayList<>(consumer.assignment());
        if (mine.isEmpty()) return false;
        try {
            Map<TopicPartition, Long> ends = consumer.endOffsets(mine, Duration.ofMillis(settings.timeoutMs));
            for (TopicPartition of : mine) {
                if (consumer.position(of, Duration.ofMillis(settings.timeoutMs)) < ends.get(of)) return false;
            }
            return true;
        } catch (RuntimeException error) {
            return false;
        }
    }

    private static void enter(Map<TopicPartition, Long> positions, ObjectNode heard) {
        Map<String, TopicPartition> sorted = new TreeMap<>();
        for (TopicPartition of : positions.keySet()) sorted.put(of.toString(), of);
        ArrayNode moved = heard.putArray("positions");
        for (TopicPartition of : sorted.values()) moved.addArray().add(of.topic()).add(of.partition()).add(positions.get(of));
    }

    private static TopicPartition partition(JsonNode call) {
        return new TopicPartition(call.get("partition").get(0).asText(), call.get("partition").get(1).asInt());
    }
}
