// Performs administrators' requests with Kafka's admin client, one at a time, as clients/administrators.py asks for them.
//
// Each request is sent once by this client, and again only after NOT_CONTROLLER: the caller is told of such earlier attempts.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.PartitionReassignment;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.NoReassignmentInProgressException;
import org.apache.kafka.common.errors.NotControllerException;
import org.apache.kafka.common.protocol.Errors;

final class Administrator {
    private static final int AGAIN_MS = 100;

    private final Settings settings;
    private Admin admin;

    Administrator(Settings settings) {
        this.settings = settings;
    }

    void close() {
        if (admin != null) admin.close(Duration.ofMillis(Settings.CLOSE_MS));
        admin = null;
    }

    // Whether this is a request of an administrator; then it was performed, or the error is in `heard`.
    boolean perform(String act, JsonNode call, ObjectNode heard) throws Exception {
        long endMs = System.currentTimeMillis() + call.path("timeout_ms").asLong();
        ArrayNode earlier = Worker.JSON.createArrayNode();
        while (true) {
            try {
                return performOnce(act, call, heard);
            } catch (ExecutionException error) {
                if (!(error.getCause() instanceof NotControllerException)) throw error;
                if (System.currentTimeMillis() + AGAIN_MS > endMs) throw error;
                earlier.add(Errors.NOT_CONTROLLER.name());
                Thread.sleep(AGAIN_MS);
            } finally {
                if (earlier.size() > 0) heard.put("attempts", 1).set("earlier", earlier);
            }
        }
    }

    private boolean performOnce(String act, JsonNode call, ObjectNode heard) throws Exception {
        switch (act) {
            case "CreateTopic": create(call); return true;
            case "DeleteTopic": admin().deleteTopics(Set.of(call.get("topic").asText())).all().get(); return true;
            case "AddPartition": add(call); return true;
            case "ElectPreferred": elect(ElectionType.PREFERRED, call); return true;
            case "ElectUnclean": elect(ElectionType.UNCLEAN, call); return true;
            case "Reassign":
                move(Map.of(Logs.partition(call), Optional.of(new NewPartitionReassignment(brokers(call.get("replicas"))))));
                return true;
            case "CancelReassignments": cancel(heard); return true;
            case "ListPending": listPending(heard); return true;
            case "AlterConfig": alter(call); return true;
            default: return false;
        }
    }

    private Admin admin() {
        if (admin == null) {
            Properties own = settings.asking();
            own.put("request.timeout.ms", (int) Settings.CALL_MS);
            own.put("default.api.timeout.ms", (int) Settings.CALL_MS);
            own.put("retries", 0);
            admin = Admin.create(own);
        }
        return admin;
    }

    private void create(JsonNode call) throws Exception {
        Map<Integer, List<Integer>> assignment = new HashMap<>();
        for (JsonNode replicas : call.get("assignment")) assignment.put(assignment.size(), brokers(replicas));
        NewTopic topic = new NewTopic(call.get("topic").asText(), assignment).configs(texts(call.get("settings")));
        admin().createTopics(Set.of(topic)).all().get();
    }

    private void add(JsonNode call) throws Exception {
        TopicPartition added = Logs.partition(call);
        NewPartitions more = NewPartitions.increaseTo(added.partition() + 1, List.of(brokers(call.get("replicas"))));
        admin().createPartitions(Map.of(added.topic(), more)).all().get();
    }

    // A partition that is led as asked for needs no election: that is a success, as for an election.
    private void elect(ElectionType how, JsonNode call) throws Exception {
        Map<TopicPartition, Optional<Throwable>> elected = admin().electLeaders(how, Set.of(Logs.partition(call))).partitions().get();
        for (Optional<Throwable> error : elected.values()) {
            if (error.isPresent() && !(error.get() instanceof ElectionNotNeededException)) throw new ExecutionException(error.get());
        }
    }

    private void move(Map<TopicPartition, Optional<NewPartitionReassignment>> moves) throws Exception {
        admin().alterPartitionReassignments(moves).all().get();
    }

    // Cancels every move that is under way, and tells which. A move may end between the list and the request.
    private void cancel(ObjectNode heard) throws Exception {
        Map<TopicPartition, Optional<NewPartitionReassignment>> moves = new HashMap<>();
        for (TopicPartition moved : pending().keySet()) moves.put(moved, Optional.empty());
        if (moves.isEmpty()) {
            heard.put("attempts", 0);  // nothing is sent that could cancel a move later
            throw new NoReassignmentInProgressException("no move is under way");
        }
        TreeMap<String, KafkaFuture<Void>> answers = new TreeMap<>();
        admin().alterPartitionReassignments(moves).values().forEach((moved, answer) -> answers.put(moved.toString(), answer));
        ArrayNode found = Worker.JSON.createArrayNode();
        for (Map.Entry<String, KafkaFuture<Void>> answer : answers.entrySet()) {
            try {
                answer.getValue().get();
                found.add(answer.getKey());
            } catch (ExecutionException error) {
                if (!(error.getCause() instanceof NoReassignmentInProgressException)) throw error;
            }
        }
        if (found.size() == 0) throw new NoReassignmentInProgressException("no move is under way");
        heard.set("found", found);
    }

    private void listPending(ObjectNode heard) throws Exception {
        TreeMap<String, PartitionReassignment> moves = new TreeMap<>();
        pending().forEach((moved, move) -> moves.put(moved.toString(), move));
        ArrayNode found = heard.putArray("found");
        moves.forEach((moved, move) -> found.add(
            "the move of " + moved + " (adds " + move.addingReplicas() + ", removes " + move.removingReplicas() + ")"));
    }

    private Map<TopicPartition, PartitionReassignment> pending() throws Exception {
        return admin().listPartitionReassignments().reassignments().get();
    }

    private void alter(JsonNode call) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        texts(call.get("settings")).forEach(
            (name, value) -> changes.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, call.get("topic").asText());
        admin().incrementalAlterConfigs(Map.of(topic, changes)).all().get();
    }

    private static List<Integer> brokers(JsonNode replicas) {
        List<Integer> brokers = new ArrayList<>();
        replicas.forEach(broker -> brokers.add(broker.asInt()));
        return brokers;
    }

    private static Map<String, String> texts(JsonNode settings) {
        Map<String, String> texts = new HashMap<>();
        settings.fields().forEachRemaining(setting -> texts.put(setting.getKey(), setting.getValue().asText()));
        return texts;
    }
}
