package rlock.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import org.redisson.api.RCountDownLatch;
import org.redisson.api.RedissonClient;

/** Calls the methods of a count-down latch. */
final class Latches {

    private Latches() {
    }

    /** Calls the method that the request's kind names. */
    static Object run(RedissonClient redisson, Request request) throws InterruptedException {
        RCountDownLatch latch = redisson.getCountDownLatch(request.texts("names").get(0));
        switch (request.text("kind")) {
            case "trySetCount":
                return latch.trySetCount(request.number("count"));
            case "countDown":
                latch.countDown();
                return true;
            case "getCount":
                return latch.getCount();
            case "await":
                if (request.has("wait")) {
                    return latch.await(request.waiting(), MILLISECONDS);
                }
                latch.await();
                return true;
            case "delete":
                return latch.delete();
            default:
                throw new IllegalArgumentException("no method " + request.text("kind"));
        }
    }
}
