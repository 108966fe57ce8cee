// The transactional producer of one client, made and initialized on first use; after an error it is given up.

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.RecordMetadata;

final class TransactionalProducer {
    private static final int TRANSACTION_MS = 6000;  // after which the coordinator aborts a transaction that nobody ends

    private final Settings settings;
    private final String id;
    private KafkaProducer<String, String> producer;

    TransactionalProducer(Settings settings) {
        this(settings, settings.transactionalId);
    }

    TransactionalProducer(Settings settings, String id) {
        this.settings = settings;
        this.id = id;
    }

    KafkaProducer<String, String> ready() {
        if (producer == null) {
            Properties own = settings.producing();
            own.put("transactional.id", id);
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

    void giveUp() {
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

    // Enters the offset of each record that was delivered as the first of its two places.
    static void enterOffsets(Map<ArrayNode, Future<RecordMetadata>> sent, ObjectNode heard) {
        for (Map.Entry<ArrayNode, Future<RecordMetadata>> result : sent.entrySet()) {
            try {
                long offset = result.getValue().get(0, TimeUnit.MILLISECONDS).offset();
                result.getKey().set(0, Worker.JSON.getNodeFactory().numberNode(offset));
            } catch (Exception error) {
                // A commit that was confirmed although a record was not: nobody knows what that means.
                if (!heard.has("error")) Worker.fail(heard, error);
            }
        }
    }
}
