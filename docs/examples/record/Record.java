// Records a producer and two members of a consumer group, as record.py does:
//   java -cp "$JARS/*" Record.java BROKERS TOPIC SECONDS >history.jsonl
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.serialization.*;

public class Record {
    static String brokers, topic, keys;
    static long end;
    static final Map<Integer, Long> acknowledged = new ConcurrentHashMap<>(), read = new ConcurrentHashMap<>(); // the last offsets

    static long left() { return (end - System.nanoTime()) / 1_000_000_000L; } // seconds

    static synchronized void note(int process, String kind, String f, String value) { // lines stand in the order of their times
        System.out.printf("{\"process\": %d, \"type\": \"%s\", \"f\": \"%s\", \"value\": [%s], \"time\": %d}%n", process, kind, f, value, System.nanoTime());
    }

    static Void produce() throws InterruptedException {
        Map<String, Object> settings = Map.of("bootstrap.servers", brokers, "delivery.timeout.ms", 3000, "request.timeout.ms", 2000, "linger.ms", 0);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            int process = 0;
            for (int number = 0; left() > 0; number++) {
                String key = topic + "-" + number % 2, sent = "[\"send\", \"%s\", %s]";
                note(process, "invoke", "send", sent.formatted(key, number));
                try {
                    long offset = producer.send(new ProducerRecord<>(topic, number % 2, null, "" + number)).get().offset();
                    acknowledged.put(number % 2, offset);
                    note(process, "ok", "send", sent.formatted(key, "[" + offset + ", " + number + "]"));
                } catch (ExecutionException unknown) { // it may be in the log, or come there later
                    note(process, "info", "send", sent.formatted(key, number));
                    process += 10;
                }
            }
        }
        return null;
    }

    static Void consume(int process) {
        Map<String, Object> settings = Map.of("bootstrap.servers", brokers, "group.id", topic, "auto.offset.reset", "earliest", "enable.auto.commit", false);
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            note(process, "invoke", "subscribe", keys);
            consumer.subscribe(List.of(topic));
            note(process, "ok", "subscribe", keys);
            while (left() > 0 || read.getOrDefault(0, -1L) < acknowledged.getOrDefault(0, -1L) && left() > -60
                    || read.getOrDefault(1, -1L) < acknowledged.getOrDefault(1, -1L) && left() > -60) {
                note(process, "invoke", "poll", "[\"poll\"]");
                var polled = new TreeMap<String, List<List<Object>>>();
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    String key = "\"" + topic + "-" + record.partition() + "\"";
                    polled.computeIfAbsent(key, none -> new ArrayList<>()).add(List.of(record.offset(), record.value()));
                    read.merge(record.partition(), record.offset(), Math::max);
                }
                note(process, "ok", "poll", "[\"poll\", " + polled.toString().replace('=', ':') + "]");
                try { consumer.commitSync(Duration.ofSeconds(2)); } catch (KafkaException again) { } // what is not committed is read again
            }
        }
        return null;
    }

    public static void main(String[] arguments) throws Exception {
        brokers = arguments[0]; topic = arguments[1]; keys = "\"" + topic + "-0\", \"" + topic + "-1\"";
        end = System.nanoTime() + Long.parseLong(arguments[2]) * 1_000_000_000L;
        System.out.println("{\"manifest\": {\"system\": \"Kafka with its Java client\", \"model\": \"kafka\"}}");
        var clients = Executors.newCachedThreadPool();
        for (var client : clients.invokeAll(List.<Callable<Void>>of(Record::produce, () -> consume(1), () -> consume(2)))) client.get();
        clients.shutdown();
    }
}
