// Transactions of sends and polls, as clients/sessions.py makes them with librdkafka: a call counts as sent once its commit was asked
// for. After an error the producer is given up. The consumer goes back to where it was then, or to the beginning after a commit of
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
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;

final class Transactions {
    private static final int TRANSACTION_MS = 6000;  // after which the coordinator aborts a transaction that nobody ends

    private final Settings settings;
    private KafkaProducer<String, String> producer;
    private KafkaConsumer<String, String> consumer;
    private Map<TopicPartition, Long> positions = new HashMap<>();

    Transactions(Settings settings) {
        this.settings = settings;
    }

    void perform(JsonNode call, ObjectNode heard) {
        Map<TopicPartition, Long> before = new HashMap<>(positions);
        Map<ArrayNode, Future<RecordMetadata>> results = new IdentityHashMap<>();  // by the answer to a send
        boolean sends = false, sent = false;
        for (JsonNode micro : call.get("micros")) sends |= !micro.get("value").isNull();
        heard.put("at_end", false);
        try {
            if (sends) transactional().beginTransaction();
            micros(call, heard, results);
            if (sends && call.get("aborts").asBoolean()) {
                transactional().flush();  // an abort drops what was not sent, and would show nothing
                transactional().abortTransaction();
                heard.put("error", "ABORTED");
            } else if (sends) {
                sent = true;
                transactional().commitTransaction();
            }
        } catch (Exception error) {
            Worker.fail(heard, error);
            giveUp();
        }
        enterOffsets(results, heard);
        heard.put("attempts", sent ? 1 : 0);
        if (heard.has("error")) {
            backTo(sent ? new HashMap<>() : before);
            return;
        }
        Map<String, TopicPartition> sorted = new TreeMap<>();
        for (TopicPartition of : positions.keySet()) sorted.put(of.toString(), of);
        ArrayNode moved = heard.putArray("positions");
        for (TopicPartition of : sorted.values()) {
            if (positions.get(of).equals(before.get(of))) continue;
            moved.addArray().add(of.topic()).add(of.partition()).add(positions.get(of));
        }
    }

    private void micros(JsonNode call, ObjectNode heard, Map<ArrayNode, Future<RecordMetadata>> results) {
        List<TopicPartition> reads = new ArrayList<>();
        for (JsonNode read : call.get("reads")) reads.add(new TopicPartition(read.get(0).asText(), read.get(1).asInt()));
        ArrayNode told = heard.putArray("told");
        for (JsonNode micro : call.get("micros")) {
            ArrayNode answer = told.addArray();
            if (micro.get("value").isNull()) {
                heard.put("at_end", read(reads, answer.add("poll")));
                continue;
            }
            TopicPartition to = new TopicPartition(micro.get("topic").asText(), micro.get("partition").asInt());
            String value = micro.get("value").asText();
            answer.add("send").add(to.toString()).addArray().addNull().add(value);
            results.put(answer, transactional().send(new ProducerRecord<>(to.topic(), to.partition(), null, value)));
        }
    }

    private static void enterOffsets(Map<ArrayNode, Future<RecordMetadata>> results, ObjectNode heard) {
        for (Map.Entry<ArrayNode, Future<RecordMetadata>> result : results.entrySet()) {
            try {
                long offset = result.getValue().get(0, TimeUnit.MILLISECONDS).offset();
                ((ArrayNode) result.getKey().get(2)).set(0, Worker.JSON.getNodeFactory().numberNode(offset));
            } catch (Exception error) {
                // A commit that was confirmed although a record was not: nobody knows what that means.
                if (!heard.has("error")) Worker.fail(heard, error);
            }
        }
    }

    private KafkaProducer<String, String> transactional() {
        if (producer == null) {
            Properties own = settings.producing();
            own.put("transactional.id", settings.transactionalId);
            own.put("transaction.timeout.ms", Math.max(TRANSACTION_MS, settings.timeoutMs));
            own.put("delivery.timeout.ms", Math.max(1000, settings.timeoutMs));
            own.put("linger.ms", 0);
            own.put("max.block.ms", Settings.CALL_MS);
            KafkaProducer<String, String> made = new KafkaProducer<>(own);
            try {
                made.initTransactions();
            } catch (RuntimeException error) {
                made.close(Duration.ZERO);
                throw error;
            }
            producer = made;
        }
        return producer;
    }

    // The records from the positions on, and whether every partition was read to where it ended after the call began.
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
        if (ended) answer.add("end");
        return ended;
    }

    void close() {
        giveUp();
        backTo(new HashMap<>());
    }

    private void giveUp() {
        if (producer == null) return;
        KafkaProducer<String, String> old = producer;
        producer = null;
        try {
            old.abortTransaction();
        } catch (RuntimeException error) {
            // It is given up anyway: the next one has the same transactional id.
        }
        old.close(Duration.ofMillis(Settings.CLOSE_MS));
    }

    private void backTo(Map<TopicPartition, Long> to) {
        positions = to;
        if (consumer != null) consumer.close(Duration.ofMillis(Settings.CLOSE_MS));
        consumer = null;
    }
}
