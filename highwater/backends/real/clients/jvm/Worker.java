// The Java clients of a run, a session for each client of the harness, which asks and hears over JSON lines as piped.py says.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.kafka.common.protocol.Errors;

public final class Worker {
    static final ObjectMapper JSON = new ObjectMapper();
    static final PrintStream ANSWERS = System.out;

    public static void main(String[] args) throws Exception {
        System.setOut(System.err);  // whatever a library prints is no answer
        Map<String, Worker> workers = new HashMap<>();
        Map<String, ExecutorService> threads = new HashMap<>();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = requests.readLine()) != null; ) {
            JsonNode request = JSON.readTree(line);
            String client = request.get("client").asText();
            if (!workers.containsKey(client)) {
                workers.put(client, new Worker(new Settings(client, request)));
                threads.put(client, Executors.newSingleThreadExecutor());
            }
            Worker worker = workers.get(client);
            threads.get(client).submit(() -> worker.answer(request));
        }
        Runtime.getRuntime().halt(0);
    }

    private final Logs logs;
    private final Transactions transactions;
    private final Members members;
    private final SharedIds sharedIds;
    private final Administrator administrator;
    private final Settings settings;
    private Shares shares;  // made on first use: older releases have no class of it

    private Worker(Settings settings) {
        logs = new Logs(settings);
        TransactionalProducer producer = new TransactionalProducer(settings);
        transactions = new Transactions(settings, producer);
        members = new Members(settings, producer);
        sharedIds = new SharedIds(settings);
        administrator = new Administrator(settings);
        this.settings = settings;
    }

    private Void answer(JsonNode request) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        answer.set("number", request.get("number"));
        answer.set("heard", perform(request.get("act").asText(), request.get("call")));
        String line = JSON.writeValueAsString(answer);
        synchronized (ANSWERS) {
            ANSWERS.println(line);
            ANSWERS.flush();
        }
        return null;
    }

    private ObjectNode perform(String act, JsonNode call) {
        ObjectNode heard = JSON.createObjectNode().put("id", call.path("id").asInt()).put("attempts", 1);
        try {
            switch (act) {
                case "ProduceCall": logs.produce(call, heard); break;
                case "PollCall": logs.poll(call, heard); break;
                case "LatestCall": logs.bound(call, true, heard); break;
                case "EarliestCall": logs.bound(call, false, heard); break;
                case "TxnCall": transactions.perform(call, heard); break;
                case "StepCall": sharedIds.perform(call, heard); break;
                case "ShareCall": shares().perform(call, heard); break;
                case "ReadCommittedCall": transactions.readCommitted(call, heard); break;
                case "ProcessCall": members.process(call, heard); break;
                case "GroupPollCall": members.poll(call, heard); break;
                case "GroupLeaveCall": members.close(); break;
                case "GroupAbandonCall": members.abandon(); break;
                case "GroupPositionsCall": members.positions(call, heard); break;
                case "CommitCall": members.commit(call, heard); break;
                case "CommittedCall": members.committed(call, heard); break;
                case "open": logs.open(); break;
                case "close": close(); break;
                default:
                    if (!administrator.perform(act, call, heard)) heard.put("error", "_UNKNOWN_CALL").put("attempts", 0);
            }
        } catch (Exception error) {
            fail(heard, error);
        }
        return heard;
    }

    private Shares shares() throws ReflectiveOperationException {
        if (shares == null) shares = Shares.of(settings);
        return shares;
    }

    private void close() {
        members.close();
        if (shares != null) shares.close();
        transactions.close();
        sharedIds.close();
        administrator.close();
        logs.close();
    }

    // An error by Kafka's number where it has one, else by the name of its class.
    static void fail(ObjectNode heard, Throwable error) {
        Throwable cause = error instanceof ExecutionException && error.getCause() != null ? error.getCause() : error;
        Errors known = Errors.forException(cause);
        heard.put("error", known == Errors.UNKNOWN_SERVER_ERROR ? "_" + cause.getClass().getSimpleName() : known.name());
        heard.put("code", known.code());
    }
}
