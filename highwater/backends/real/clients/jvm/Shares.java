// A member of a share group. Releases without a share consumer have no class of it (shares/ShareMembers.java).

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

interface Shares {
    void perform(JsonNode call, ObjectNode heard) throws Exception;

    void close();

    static Shares of(Settings settings) throws ReflectiveOperationException {
        Class<?> found = Class.forName("ShareMembers");
        return (Shares) found.getDeclaredConstructor(Settings.class).newInstance(settings);
    }
}
