// The Java clients of a run, one session for each client of the harness, which asks and hears over JSON lines as piped.py says.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public final class Worker {
    static final ObjectMapper JSON = new ObjectMapper();
    static final PrintStream ANSWERS = System.out;
    static final long CALL_MS = 5000;  // for each request of a transaction, and beyond the request timeout of a produce
    static final int POLL_MS = 100;
    static final int CLOSE_MS = 1000;
    static final int TRANSACTION_MS = 6000;  // after which the coordinator aborts a transaction that nobody ends
    static final int BATCH_MS = 5;  // the values of one produce travel as one batch

    public static void main(String[] args) throws Exception {
        System.setOut(System.err);  // whatever a library prints is no answer
        Map<String, Session> sessions = new HashMap<>();
        Map<String, ExecutorService> threads = new HashMap<>();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = requests.readLine()) != null; ) {
            JsonNode request = JSON.readTree(line);
            String client = request.get("client").asText();
            if (!sessions.containsKey(client)) {
                sessions.put(client, new Session(client, request));
                threads.put(client, Executors.newSingleThreadExecutor());
            }
            Session session = sessions.get(client);
            String act = request.get("act").asText();
            threads.get(client).submit(() -> answer(request.get("number"), session.perform(act, request.get("call"))));
        }
        Runtime.getRuntime().halt(0);
    }

    static Void answer(JsonNode number, ObjectNode heard) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        answer.set("number", number);
        answer.set("heard", heard);
        String line = JSON.writeValueAsString(answer);
        synchronized (ANSWERS) {
            ANSWERS.println(line);
            ANSWERS.flush();
        }
        return null;
    }

    // An error by Kafka's number where it has one, else by the name of its class.
    static void fail(ObjectNode heard, Throwable error) {
        Throwable cause = error instanceof ExecutionException && error.getCause() != null ? error.getCause() : error;
        Errors known = Errors.forException(cause);
        heard.put("error", known == Errors.UNKNOWN_SERVER_ERROR ? "_" + cause.getClass().getSimpleName() : known.name());
        heard.put("code", known.code());
    }

    static final class Session {
        private final String name;
        private final String brokers;
        private final String transactionalId;
        private final int timeoutMs;
        private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();  // by acks, retries, idempotent
        private KafkaConsumer<String, String> reader;
        private KafkaProducer<String, String> producer;  // of transactions
        private KafkaConsumer<String, String> consumer;  // of committed records
        private Map<TopicPartition, Long> positions = new HashMap<>();

        Session(String name, JsonNode request) {
            this.name = name;
            this.brokers = request.get("brokers").asText();
            this.transactionalId = request.get("transactional_id").asText();
            this.timeoutMs = request.get("timeout_ms").asInt();
        }

        ObjectNode perform(String act, JsonNode call) {
            ObjectNode heard = JSON.createObjectNode().put("id", call.path("id").asInt()).put("attempts", 1);
            try {
                switch (act) {
                    case "ProduceCall": produce(call, heard); break;
                    case "PollCall": poll(call, heard); break;
                    case "LatestCall": case "EarliestCall": bound(call, act.equals("LatestCall"), heard); break;
                    case "TxnCall": transact(call, heard); break;
                    case "close": close(); break;
                    default: heard.put("error", "_UNKNOWN_CALL").put("attempts", 0);
                }
            } catch (Exception error) {
                fail(heard, error);
            }
            return heard;
        }

        private Properties settings() {
            Properties own = new Properties();
            own.put("bootstrap.servers", brokers);
            own.put("client.id", name);
            own.put("request.timeout.ms", timeoutMs);
            own.put("reconnect.backoff.ms", 50);
            own.put("reconnect.backoff.max.ms", 500);
            own.put("retry.backoff.ms", 50);
            own.put("metadata.max.age.ms", 5000);
            own.put("key.serializer", StringSerializer.class.getName());
            own.put("value.serializer", StringSerializer.class.getName());
            own.put("key.deserializer", StringDeserializer.class.getName());
            own.put("value.deserializer", StringDeserializer.class.getName());
            return own;
        }

        // --- produce and read -----------------------------------------------------------------------------------------------

        private void produce(JsonNode call, ObjectNode heard) throws Exception {
            boolean idempotent = call.get("idempotent").asBoolean();
            int retries = call.get("retries").asInt();
            String key = call.get("acks").asText() + " " + retries + " " + idempotent;
            KafkaProducer<String, String> sender = producers.get(key);
            if (sender == null) {
                Properties own = settings();
                own.put("acks", call.get("acks").asText());
                own.put("enable.idempotence", idempotent);
                if (!idempotent) own.put("retries", retries);
                own.put("linger.ms", BATCH_MS);
                own.put("max.block.ms", timeoutMs);
                own.put("delivery.timeout.ms", timeoutMs + BATCH_MS);
                sender = new KafkaProducer<>(own);
                producers.put(key, sender);
            }
            TopicPartition to = partition(call.get("tp").asText());
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode value : call.get("values")) {
                sent.add(sender.send(new ProducerRecord<>(to.topic(), to.partition(), null, value.asText())));
            }
            ArrayNode offsets = JSON.createArrayNode();
            boolean failed = false;
            for (Future<RecordMetadata> one : sent) {
                try {
                    RecordMetadata at = one.get(timeoutMs + CALL_MS, TimeUnit.MILLISECONDS);
                    if (at.hasOffset()) offsets.add(at.offset());
                } catch (Exception error) {
                    if (!failed) fail(heard, error);
                    failed = true;
                }
            }
            heard.put("attempts", idempotent ? 1 : 1 + retries);
            if (!failed) {
                if (offsets.size() == sent.size()) heard.set("offsets", offsets);
                return;
            }
            // Earlier attempts, and other values of the operation, may have had another result.
            if (idempotent || retries > 0 || offsets.size() > 0) heard.putArray("earlier").add("_RETRIED");
            if (idempotent) {
                producers.remove(key).close(Duration.ZERO);
            }
        }

        private KafkaConsumer<String, String> reader() {
            if (reader == null) reader = reading("read_uncommitted");
            return reader;
        }

        private KafkaConsumer<String, String> reading(String isolation) {
            Properties own = settings();
            own.put("group.id", "highwater");
            own.put("enable.auto.commit", false);
            own.put("auto.offset.reset", "none");
            own.put("fetch.max.wait.ms", 50);
            own.put("isolation.level", isolation);
            own.put("default.api.timeout.ms", timeoutMs);
            return new KafkaConsumer<>(own);
        }

        private void bound(JsonNode call, boolean latest, ObjectNode heard) {
            List<TopicPartition> of = List.of(partition(call.get("tp").asText()));
            Duration limit = Duration.ofMillis(timeoutMs);
            heard.put("offset", (latest ? reader().endOffsets(of, limit) : reader().beginningOffsets(of, limit)).get(of.get(0)));
        }

        // Records that were fetched after the call began: the partition is assigned anew, and where it ends is asked for first.
        private void poll(JsonNode call, ObjectNode heard) {
            TopicPartition of = partition(call.get("tp").asText());
            KafkaConsumer<String, String> from = reader();
            from.assign(List.of(of));
            try {
                from.seek(of, call.get("offset").asLong());
                Long end = from.endOffsets(List.of(of), Duration.ofMillis(timeoutMs)).get(of);
                long limit = System.nanoTime() + timeoutMs * 1_000_000L;
                ArrayNode records = heard.putArray("records");
                while (records.size() == 0 && from.position(of) < end) {
                    for (ConsumerRecord<String, String> record : from.poll(Duration.ofMillis(POLL_MS))) {
                        ArrayNode one = JSON.createArrayNode().add(record.offset()).add(record.value());
                        if (records.size() < call.get("max_records").asInt()) records.add(one.add(record.leaderEpoch().orElse(-1)));
                    }
                    if (records.size() == 0 && System.nanoTime() > limit) throw new org.apache.kafka.common.errors.TimeoutException();
                }
                if (end < call.get("offset").asLong()) throw new OffsetOutOfRangeException(Map.of(of, end));
            } catch (OffsetOutOfRangeException error) {
                heard.put("error", "OFFSET_OUT_OF_RANGE").put("code", Errors.OFFSET_OUT_OF_RANGE.code());
            } finally {
                from.assign(List.of());
            }
        }

        // --- transactions ---------------------------------------------------------------------------------------------------

        // As clients/sessions.py does it: a call counts as sent once its commit was asked for; after an error the producer is given up,
        // and the consumer goes back to where it was, or after a commit of unknown outcome to the beginning.
        private void transact(JsonNode call, ObjectNode heard) {
            ArrayNode told = heard.putArray("told");
            Map<TopicPartition, Long> before = new HashMap<>(positions);
            List<TopicPartition> reads = new ArrayList<>();
            for (JsonNode read : call.get("reads")) reads.add(new TopicPartition(read.get(0).asText(), read.get(1).asInt()));
            boolean sends = false, sent = false, ok = false, atEnd = false;
            List<Future<RecordMetadata>> results = new ArrayList<>();
            List<ArrayNode> answers = new ArrayList<>();
            for (JsonNode micro : call.get("micros")) sends |= !micro.get("value").isNull();
            try {
                if (sends) transactional().beginTransaction();
                for (JsonNode micro : call.get("micros")) {
                    ArrayNode answer = told.addArray();
                    if (micro.get("value").isNull()) {
                        atEnd = read(reads, answer.add("poll"));
                    } else {
                        TopicPartition to = new TopicPartition(micro.get("topic").asText(), micro.get("partition").asInt());
                        String value = micro.get("value").asText();
                        answer.add("send").add(to.toString()).addArray().addNull().add(value);
                        answers.add(answer);
                        results.add(transactional().send(new ProducerRecord<>(to.topic(), to.partition(), null, value)));
                    }
                }
                if (sends && call.get("aborts").asBoolean()) {
                    transactional().flush();  // an abort drops what was not sent, and would show nothing
                    transactional().abortTransaction();
                    heard.put("error", "ABORTED");
                } else if (sends) {
                    sent = true;
                    transactional().commitTransaction();
                }
                ok = !heard.has("error");
            } catch (Exception error) {
                fail(heard, error);
                giveUp();
            }
            for (int i = 0; i < results.size(); i++) {
                try {
                    long offset = results.get(i).get(0, TimeUnit.MILLISECONDS).offset();
                    ((ArrayNode) answers.get(i).get(2)).set(0, JSON.getNodeFactory().numberNode(offset));
                } catch (Exception error) {  // a commit that was confirmed although a record was not: nobody knows what that means
                    if (ok) fail(heard, error);
                    ok = false;
                }
            }
            heard.put("attempts", sent ? 1 : 0).put("at_end", atEnd);
            ArrayNode moved = heard.putArray("positions");
            if (!ok) {
                backTo(sent ? new HashMap<>() : before);
                return;
            }
            Map<String, TopicPartition> sorted = new TreeMap<>();
            for (TopicPartition of : positions.keySet()) sorted.put(of.toString(), of);
            for (TopicPartition of : sorted.values()) {
                if (positions.get(of).equals(before.get(of))) continue;
                moved.addArray().add(of.topic()).add(of.partition()).add(positions.get(of));
            }
        }

        private KafkaProducer<String, String> transactional() {
            if (producer == null) {
                Properties own = settings();
                own.put("transactional.id", transactionalId);
                own.put("transaction.timeout.ms", Math.max(TRANSACTION_MS, timeoutMs));
                own.put("delivery.timeout.ms", Math.max(timeoutMs, Math.min(TRANSACTION_MS, Math.max(1000, timeoutMs))));
                own.put("linger.ms", 0);
                own.put("max.block.ms", CALL_MS);
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
        private boolean read(Collection<TopicPartition> reads, ArrayNode answer) {
            if (consumer == null) {
                consumer = reading("read_committed");
                consumer.assign(reads);
                for (TopicPartition of : reads) {
                    if (positions.containsKey(of)) consumer.seek(of, positions.get(of));
                    else consumer.seekToBeginning(List.of(of));
                }
            }
            Map<TopicPartition, Long> ends = consumer.endOffsets(reads, Duration.ofMillis(timeoutMs));
            long limit = System.nanoTime() + timeoutMs * 1_000_000L;
            ObjectNode records = answer.addObject();
            while (true) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(POLL_MS))) {
                    TopicPartition of = new TopicPartition(record.topic(), record.partition());
                    positions.put(of, record.offset() + 1);
                    records.withArray(of.toString()).addArray().add(record.offset()).add(record.value());
                }
                boolean ended = true;
                for (TopicPartition of : reads) ended &= consumer.position(of, Duration.ofMillis(timeoutMs)) >= ends.get(of);
                if (ended) answer.add("end");
                if (ended || records.size() > 0) return ended;
                if (System.nanoTime() > limit) throw new org.apache.kafka.common.errors.TimeoutException();
            }
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
            old.close(Duration.ofMillis(CLOSE_MS));
        }

        private void backTo(Map<TopicPartition, Long> to) {
            positions = to;
            if (consumer != null) consumer.close(Duration.ofMillis(CLOSE_MS));
            consumer = null;
        }

        private void close() {
            giveUp();
            backTo(new HashMap<>());
            if (reader != null) reader.close(Duration.ofMillis(CLOSE_MS));
            for (KafkaProducer<String, String> one : producers.values()) one.close(Duration.ZERO);
        }
    }

    static TopicPartition partition(String name) {
        int at = name.lastIndexOf('-');
        return new TopicPartition(name.substring(0, at), Integer.parseInt(name.substring(at + 1)));
    }
}
