package rlock.interop;

import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Locks and unlocks as fast as it can. It does not count pairs in the warm-up. */
final class Bench {

    private final RLock lock;
    private final Request request;
    private final AtomicLong handOffs = new AtomicLong();

    private volatile boolean counting;
    private volatile boolean over;
    private volatile Thread last; // the thread of this JVM that held the lock last

    Bench(RedissonClient redisson, Request request) throws Exception {
        this.lock = Kinds.lock(redisson, request);
        this.request = request;
    }

    Map<String, Object> run() throws Exception {
        Loops loops = new Loops();
        loops.start(request.number("threads"), this::loop);
        Thread.sleep(request.number("warmup"));
        counting = true;
        long start = System.nanoTime();
        Thread.sleep(request.number("ms"));
        counting = false;
        long nanos = System.nanoTime() - start;
        over = true;
        List<Long> pairs = loops.results();
        return Map.of("pairs", pairs, "handOffs", handOffs.get(), "nanos", nanos);
    }

    private long loop() {
        long pairs = 0;
        while (!over) {
            lock.lock();
            try {
                if (counting && last != Thread.currentThread()) {
                    handOffs.incrementAndGet();
                }
                last = Thread.currentThread();
            } finally {
                lock.unlock();
            }
            if (counting) {
                pairs++;
            }
        }
        return pairs;
    }
}
