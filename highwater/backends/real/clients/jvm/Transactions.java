// Transactions of sends and polls, as clients/transactions.py makes them with librdkafka: a call counts as sent once its commit was
// asked for. After an error the producer is given up. The consumer goes back to where it was then, or to the beginning after a commit of
// unknown outcome.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;

final class Transactions {
    private final Settings settings;
    private final TransactionalProducer producer;
    private KafkaConsumer<String, String> consumer;
    private KafkaConsumer<String, String> watermarks;  // asks where partitions end, whatever transactions are open
    private Map<TopicPartition, Long> positions = new HashMap<>();

    Transactions(Settings settings, TransactionalProducer producer) {
        this.settings = settings;
        this.producer = producer;
    }

    void perform(JsonNode call, ObjectNode heard) {
        Map<TopicPartition, Long> before = new HashMap<>(positions);
        Map<ArrayNode, Future<RecordMetadata>> results = new IdentityHashMap<>();  // by the place of its offset
        boolean sends = false, sent = false;
        for (JsonNode micro : call.get("micros")) sends |= !micro.get("value").isNull();
        heard.put("at_end", false);
        try {
            if (sends) producer.ready().beginTransaction();
            micros(call, heard, results);
            if (sends && call.get("aborts").asBoolean()) {
                producer.ready().flush();  // an abort drops what was not sent, and would show nothing
                producer.ready().abortTransaction();
                heard.put("error", "ABORTED");
            } else if (sends) {
                sent = true;
                producer.ready().commitTransaction();
            }
        } catch (Exception error) {
            Worker.fail(heard, error);
            producer.giveUp();
        }
        TransactionalProducer.enterOffsets(results, heard);
        heard.put("attempts", sent ? 1 : 0);
        if (heard.has("error")) {
            backTo(sent ? new HashMap<>() : before);
            return;
        }
        enterMoved(before, heard);
    }

    private void enterMoved(Map<TopicPartition, Long> before, ObjectNode heard) {
        Map<String, TopicPartition> sorted = new TreeMap<>();
        for (TopicPartition of : positions.keySet()) sorted.put(of.toString(), of);
        ArrayNode moved = heard.putArray("positions");
        for (TopicPartition of : sorted.values()) {
            if (positions.get(of).equals(before.get(of))) continue;
            moved.addArray().add(of.topic()).add(of.partition()).add(positions.get(of));
        }
    }

    private static List<TopicPartition> partitions(JsonNode call) {
        List<TopicPartition> reads = new ArrayList<>();
        for (JsonNode read : call.get("reads")) reads.add(new TopicPartition(read.get(0).asText(), read.get(1).asInt()));
        return reads;
    }

    private void micros(JsonNode call, ObjectNode heard, Map<ArrayNode, Future<RecordMetadata>> results) {
        List<TopicPartition> reads = partitions(call);
        ArrayNode told = heard.putArray("told");
        for (JsonNode micro : call.get("micros")) {
            ArrayNode answer = told.addArray();
            if (micro.get("value").isNull()) {
                heard.put("at_end", read(reads, answer.add("poll")));
                continue;
            }
            TopicPartition to = new TopicPartition(micro.get("topic").asText(), micro.get("partition").asInt());
            String value = micro.get("value").asText();
            ArrayNode placed = answer.add("send").add(to.toString()).addArray().addNull().add(value);
            results.put(placed, producer.ready().send(new ProducerRecord<>(to.topic(), to.partition(), null, value)));
        }
    }

    // The records from the positions on, and whether every partition was read to where it ended after the call began, and no open
    // transaction hides more: committed records end at the first one.
    private boolean read(List<TopicPartition> reads, ArrayNode answer) {
        if (consumer == null) {
            consumer = settings.consumer("read_committed");
            consumer.assign(reads);
            for (TopicPartition of : reads) {
                if (positions.containsKey(of)) consumer.seek(of, positions.get(of));
                else consumer.seekToBeginning(List.of(of));
            }
        }
        Duration patience = Duration.ofMillis(settings.timeoutMs);
        if (watermarks == null) watermarks = settings.consumer("read_uncommitted");
        Map<TopicPartition, Long> written = watermarks.endOffsets(reads, patience);
        Map<TopicPartition, Long> ends = consumer.endOffsets(reads, patience);
        long limit = System.nanoTime() + patience.toNanos();
        ObjectNode records = Worker.JSON.createObjectNode();
        boolean ended = false;
        while (!ended && records.isEmpty()) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(Settings.POLL_MS))) {
                TopicPartition of = new TopicPartition(record.topic(), record.partition());
                positions.put(of, record.offset() + 1);
                records.withArray(of.toString()).addArray().add(record.offset()).add(record.value());
            }
            ended = true;
            for (TopicPartition of : reads) ended &= consumer.position(of, patience) >= ends.get(of);
            if (!ended && records.isEmpty() && System.nanoTime() > limit) throw new TimeoutException();
        }
        answer.add(records);
        for (TopicPartition of : reads) ended &= ends.get(of) >= written.get(of);
        if (ended) answer.add("end");
        return ended;
    }

    // Polls committed records from where the last poll ended, outside of any transaction.
    void readCommitted(JsonNode call, ObjectNode heard) {
        Map<TopicPartition, Long> before = new HashMap<>(positions);
        try {
            ArrayNode answer = Worker.JSON.createArrayNode();
            heard.put("at_end", read(partitions(call), answer));
            ObjectNode told = heard.putObject("told");
            told.set("records", answer.get(0));
            if (heard.get("at_end").asBoolean()) told.put("end", true);
            enterMoved(before, heard);
        } catch (RuntimeException error) {
            backTo(before);
            throw error;
        }
    }

    void close() {
        producer.giveUp();
        backTo(new HashMap<>());
    }

    private void backTo(Map<TopicPartition, Long> to) {
        positions = to;
        if (consumer != null) consumer.close(Duration.ofMillis(Settings.CLOSE_MS));
        if (watermarks != null) watermarks.close(Duration.ofMillis(Settings.CLOSE_MS));
        consumer = watermarks = null;
    }
}
