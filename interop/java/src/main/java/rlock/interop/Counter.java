package rlock.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.redisson.api.RBucket;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * Adds to a number in Redis by reading and then writing it. If two owners hold the lock at once, additions are lost.
 * Readers check that the number does not change while they hold the read lock.
 */
final class Counter {

    private final RLock lock;
    private final RLock readLock;
    private final RBucket<String> number;
    private final long lease;
    private final long end;
    private final int writers;
    private final int readers;

    Counter(RedissonClient redisson, Request request) throws Exception {
        lock = Kinds.lock(redisson, request);
        readers = request.number("readers");
        readLock = readers == 0 ? null : redisson.getReadWriteLock(request.texts("names").get(0)).readLock();
        number = redisson.getBucket(request.text("counter"), StringCodec.INSTANCE);
        lease = request.lease();
        writers = request.number("threads");
        end = System.nanoTime() + MILLISECONDS.toNanos(request.number("ms"));
    }

    Map<String, Object> run() throws Exception {
        Loops loops = new Loops();
        loops.start(writers, this::write);
        loops.start(readers, this::read);
        List<Long> counts = loops.results();
        long reads = counts.subList(writers, counts.size()).stream().mapToLong(Long::longValue).sum();
        return Map.of("increments", counts.subList(0, writers), "reads", reads);
    }

    private long write() {
        long done = 0;
        for (; System.nanoTime() < end; done++) {
            lock.lock(lease, MILLISECONDS);
            try {
                String before = number.get();
                number.set(String.valueOf(before == null ? 1 : Long.parseLong(before) + 1));
            } finally {
                lock.unlock();
            }
        }
        return done;
    }

    private long read() {
        long done = 0;
        for (; System.nanoTime() < end; done++) {
            readLock.lock(lease, MILLISECONDS);
            try {
                String first = number.get();
                String second = number.get();
                if (!Objects.equals(first, second)) {
                    throw new IllegalStateException("read " + first + " and then " + second + " under the read lock");
                }
            } finally {
                readLock.unlock();
            }
        }
        return done;
    }
}
