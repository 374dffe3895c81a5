package rlock.interop;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Reads requests from standard input, one line of JSON each, and writes each reply to standard output when it is ready. */
final class Main {

    private static final ObjectMapper JSON = new ObjectMapper();

    private final PrintStream out;
    private final Clients clients = new Clients();
    private final ExecutorService threadless = Executors.newCachedThreadPool();

    private Main(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] args) throws Exception {
        PrintStream wire = System.out;
        System.setOut(System.err); // output of a library must not look like a reply
        new Main(wire).run();
    }

    private void run() throws Exception {
        write(Map.of("ready", true, "version", Clients.version()));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            dispatch(new Request(JSON.readTree(line)));
        }
        Runtime.getRuntime().halt(0); // the tests have ended, and shutdown hooks may wait for locks
    }

    private void dispatch(Request request) {
        try {
            if (request.has("thread") && !request.op().equals("interrupt")) {
                clients.get(request).worker(request).execute(() -> answer(request));
            } else {
                threadless.execute(() -> answer(request));
            }
        } catch (RuntimeException error) { // the client does not exist or is closed
            reply(request, null, error);
        }
    }

    private void answer(Request request) {
        try {
            Object value = Requests.run(clients, request);
            if (value instanceof CompletionStage<?> later) {
                later.whenComplete((v, error) -> reply(request, v, error));
            } else {
                reply(request, value, null);
            }
        } catch (Throwable error) {
            reply(request, null, error);
        }
    }

    private void reply(Request request, Object value, Throwable error) {
        Map<String, Object> reply = new LinkedHashMap<>();
        reply.put("id", request.id());
        if (error == null) {
            reply.put("value", value);
        } else {
            Throwable cause = unwrapped(error);
            reply.put("error", cause.getClass().getSimpleName());
            reply.put("message", String.valueOf(cause.getMessage()));
        }
        write(reply);
    }

    private static Throwable unwrapped(Throwable error) {
        while ((error instanceof CompletionException || error instanceof ExecutionException)
                && error.getCause() != null) {
            error = error.getCause();
        }
        return error;
    }

    private synchronized void write(Map<String, Object> line) {
        try {
            out.write((JSON.writeValueAsString(line) + "\n").getBytes(StandardCharsets.UTF_8));
            out.flush();
        } catch (Exception e) {
            e.printStackTrace();
            Runtime.getRuntime().halt(1); // a missing reply would hang the test
        }
    }
}
