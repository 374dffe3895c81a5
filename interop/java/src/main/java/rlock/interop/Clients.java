package rlock.interop;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.Redisson;

/** The clients of this JVM, by the names that the test chose. Each acts like a process of its own. */
final class Clients {

    private final Map<String, Peer> open = new ConcurrentHashMap<>();

    static String version() {
        return Redisson.class.getPackage().getImplementationVersion();
    }

    /** Opens a client and returns the UUID that begins its holder fields. */
    String open(Request request) throws Exception {
        Peer peer = new Peer(Settings.connect(request));
        open.put(request.text("client"), peer);
        return peer.redisson().getId();
    }

    Peer get(Request request) {
        Peer peer = open.get(request.text("client"));
        if (peer == null) {
            throw new IllegalArgumentException("no client " + request.text("client"));
        }
        return peer;
    }

    void close(Request request) {
        Peer peer = get(request);
        open.remove(request.text("client"));
        peer.close();
    }
}
