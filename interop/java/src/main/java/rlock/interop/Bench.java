package rlock.interop;

import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** Locks and unlocks, or takes and gives back a permit, as fast as it can. It does not count pairs in the warm-up. */
final class Bench {

    /** What the loop takes and gives back. */
    private interface Pair {
        String begin() throws InterruptedException;

        void end(String id);
    }

    private final Pair pair;
    private final Request request;
    private final AtomicLong handOffs = new AtomicLong();

    private volatile boolean counting;
    private volatile boolean over;
    private volatile Thread last; // the thread of this JVM that held the lock last

    Bench(RedissonClient redisson, Request request) throws Exception {
        this.pair = pair(redisson, request);
        this.request = request;
    }

    private static Pair pair(RedissonClient redisson, Request request) throws Exception {
        String name = request.texts("names").get(0);
        switch (request.text("kind")) {
            case "semaphore":
                RPermitExpirableSemaphore leased = redisson.getPermitExpirableSemaphore(name);
                return of(leased::acquire, leased::release);
            case "plain semaphore":
                RSemaphore plain = redisson.getSemaphore(name);
                return of(
                        () -> {
                            plain.acquire();
                            return "";
                        },
                        id -> plain.release());
            default:
                RLock lock = Kinds.lock(redisson, request);
                return of(
                        () -> {
                            lock.lock();
                            return "";
                        },
                        id -> lock.unlock());
        }
    }

    /** Begins a pair. */
    private interface Begin {
        String run() throws InterruptedException;
    }

    private static Pair of(Begin begin, java.util.function.Consumer<String> end) {
        return new Pair() {
            @Override
            public String begin() throws InterruptedException {
                return begin.run();
            }

            @Override
            public void end(String id) {
                end.accept(id);
            }
        };
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

    private long loop() throws InterruptedException {
        long pairs = 0;
        while (!over) {
            String id = pair.begin();
            try {
                if (counting && last != Thread.currentThread()) {
                    handOffs.incrementAndGet();
                }
                last = Thread.currentThread();
            } finally {
                pair.end(id);
            }
            if (counting) {
                pairs++;
            }
        }
        return pairs;
    }
}
