package rlock.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

/** Calls the methods of a semaphore whose permits have leases. The second name is the id of a permit. */
final class Semaphores {

    private Semaphores() {
    }

    /** Calls the method that the request's kind names. */
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
}
