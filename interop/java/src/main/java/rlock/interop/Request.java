package rlock.interop;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;

/** One line of standard input. Durations are in milliseconds. */
record Request(JsonNode json) {

    boolean has(String field) {
        return json.has(field);
    }

    String text(String field) {
        if (!json.has(field)) {
            throw new IllegalArgumentException(op() + " needs " + field);
        }
        return json.get(field).asText();
    }

    List<String> texts(String field) {
        List<String> all = new ArrayList<>();
        json.path(field).forEach(one -> all.add(one.asText()));
        return all;
    }

    /** Returns a number, or 0 if there is none. */
    int number(String field) {
        return json.path(field).asInt();
    }

    long id() {
        return json.path("id").asLong();
    }

    String op() {
        return json.path("op").asText();
    }

    /** Returns the lease. The default of -1 selects Redisson's watchdog. */
    long lease() {
        return json.path("lease").asLong(-1);
    }

    long waiting() {
        return json.path("wait").asLong(0);
    }

    boolean interruptibly() {
        return json.path("interruptibly").asBoolean();
    }

    /** Returns the thread number for an asynchronous call. */
    long threadId() {
        return json.path("threadId").asLong();
    }
}
