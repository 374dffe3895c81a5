package rlock.interop;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.api.RedissonClient;

/** One client with its threads. */
final class Peer {

    private final RedissonClient redisson;
    private final Map<Integer, Worker> workers = new ConcurrentHashMap<>();

    Peer(RedissonClient redisson) {
        this.redisson = redisson;
    }

    RedissonClient redisson() {
        return redisson;
    }

    Worker worker(Request request) {
        return workers.computeIfAbsent(request.number("thread"), n -> new Worker());
    }

    void close() {
        workers.values().forEach(Worker::close);
        redisson.shutdown();
    }
}
