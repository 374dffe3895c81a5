package rlock.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import org.redisson.api.RLock;
import org.redisson.api.RStream;
import org.redisson.api.RedissonClient;
import org.redisson.api.stream.StreamAddArgs;
import org.redisson.client.codec.StringCodec;

/** Takes turns with other owners of a lock. It notes the start and the end of each turn in a stream, inside the lock. */
final class Turns {

    private final RLock lock;
    private final RStream<String, String> log;
    private final String me;
    private final long hold;
    private final long end;

    Turns(RedissonClient redisson, Request request) throws Exception {
        lock = Kinds.lock(redisson, request);
        log = redisson.getStream(request.text("counter"), StringCodec.INSTANCE);
        me = request.text("me");
        hold = request.number("hold");
        end = System.nanoTime() + MILLISECONDS.toNanos(request.number("ms"));
    }

    long run() throws Exception {
        long turns = 0;
        for (; System.nanoTime() < end; turns++) {
            lock.lock();
            try {
                log.add(StreamAddArgs.entry(me, "in"));
                Thread.sleep(hold);
                log.add(StreamAddArgs.entry(me, "out"));
            } finally {
                lock.unlock();
            }
        }
        return turns;
    }
}
