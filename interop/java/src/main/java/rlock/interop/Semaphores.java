package rlock.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** Calls the methods of semaphores. */
final class Semaphores {

    private Semaphores() {
    }

    /** Calls the method that the request's kind names, of a semaphore whose permits have leases. The second name is a permit's id. */
    static Object run(RedissonClient redisson, Request request) throws InterruptedException {
        RPermitExpirableSemaphore semaphore = redisson.getPermitExpirableSemaphore(request.texts("names").get(0));
        switch (request.text("kind")) {
            case "trySetPermits":
                return semaphore.trySetPermits(request.number("count"));
            case "setPermits":
                semaphore.setPermits(request.number("count"));
                return true;
            case "addPermits":
                semaphore.addPermits(request.number("count"));
                return true;
            case "availablePermits":
                return semaphore.availablePermits();
            case "acquiredPermits":
                return semaphore.acquiredPermits();
            case "getPermits":
                return semaphore.getPermits();
            case "acquire":
                return request.has("lease") ? semaphore.acquire(request.lease(), MILLISECONDS) : semaphore.acquire();
            case "tryAcquire":
                return semaphore.tryAcquire();
            case "tryRelease":
                return semaphore.tryRelease(request.texts("names").get(1));
            case "updateLeaseTime":
                return semaphore.updateLeaseTime(request.texts("names").get(1), request.lease(), MILLISECONDS);
            default:
                throw new IllegalArgumentException("no method " + request.text("kind"));
        }
    }

    /** Calls the method that the request's kind names, of a plain semaphore. */
    static Object runPlain(RedissonClient redisson, Request request) throws InterruptedException {
        RSemaphore semaphore = redisson.getSemaphore(request.texts("names").get(0));
        switch (request.text("kind")) {
            case "trySetPermits":
                return semaphore.trySetPermits(request.number("count"));
            case "addPermits":
                semaphore.addPermits(request.number("count"));
                return true;
            case "availablePermits":
                return semaphore.availablePermits();
            case "drainPermits":
                return semaphore.drainPermits();
            case "acquire":
                semaphore.acquire(request.number("count"));
                return true;
            case "tryAcquire":
                return semaphore.tryAcquire(request.number("count"));
            case "release":
                semaphore.release(request.number("count"));
                return true;
            default:
                throw new IllegalArgumentException("no method " + request.text("kind"));
        }
    }
}
