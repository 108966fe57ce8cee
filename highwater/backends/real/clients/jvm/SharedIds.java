// Transactions step by step, of a producer whose transactional id other clients have, too, as clients/shared_ids.py makes them with
// librdkafka. After any failure the producer is given up.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

final class SharedIds {
    private final Settings settings;
    private TransactionalProducer producer;

    SharedIds(Settings settings) {
        this.settings = settings;
    }

    void perform(JsonNode call, ObjectNode heard) {
        String id = call.get("transactional_id").asText();
        if (call.get("step").asText().equals("init-transactions")) {
            close();
            producer = new TransactionalProducer(settings, settings.transactionalId(id));
        }
        if (producer == null) {
            heard.put("attempts", 0).put("error", "_STATE");  // a step of no producer
            return;
        }
        try {
            step(call, heard);
        } catch (Exception error) {
            Worker.fail(heard, error);
        }
        if (heard.has("error")) close();
    }

    void close() {
        if (producer != null) producer.giveUp();
        producer = null;
    }

    private void step(JsonNode call, ObjectNode heard) throws Exception {
        KafkaProducer<String, String> ready = producer.ready();
        switch (call.get("step").asText()) {
            case "txn-send": send(ready, call, heard); break;
            case "txn-commit": ready.commitTransaction(); break;
            case "txn-abort": ready.abortTransaction(); break;
            default:  // initialized
        }
    }

    // Begins a transaction, and sends its records until each is delivered or failed.
    private static void send(KafkaProducer<String, String> ready, JsonNode call, ObjectNode heard) throws Exception {
        Map<ArrayNode, Future<RecordMetadata>> sent = new IdentityHashMap<>();
        ObjectNode sends = heard.putObject("told").put("id", call.get("transactional_id").asText()).putObject("sends");
        ready.beginTransaction();
        for (JsonNode micro : call.get("sends")) {
            String topic = micro.get("topic").asText(), value = micro.get("value").asText();
            int partition = micro.get("partition").asInt();
            ArrayNode placed = sends.withArray(topic + "-" + partition).addArray().addNull().add(value);
            sent.put(placed, ready.send(new ProducerRecord<>(topic, partition, null, value)));
        }
        ready.flush();
        TransactionalProducer.enterOffsets(sent, heard);
    }
}
