package rlock.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;

/** Runs requests. The result is the value of the reply, or a stage that completes with it. */
final class Requests {

    private Requests() {
    }

    static Object run(Clients clients, Request request) throws Exception {
        switch (request.op()) {
            case "open":
                return clients.open(request);
            case "close":
                clients.close(request);
                return null;
            case "interrupt":
                clients.get(request).worker(request).interrupt();
                return null;
            case "threadId":
                return Thread.currentThread().getId();
            case "count":
                return new Counter(clients.get(request).redisson(), request).run();
            case "bench":
                return new Bench(clients.get(request).redisson(), request).run();
            case "turns":
                return new Turns(clients.get(request).redisson(), request).run();
            case "latch":
                return Latches.run(clients.get(request).redisson(), request);
            case "semaphore":
                return Semaphores.run(clients.get(request).redisson(), request);
            case "plainSemaphore":
                return Semaphores.runPlain(clients.get(request).redisson(), request);
            default:
                RLock lock = Kinds.lock(clients.get(request).redisson(), request);
                return request.has("threadId") ? async(lock, request) : sync(lock, request);
        }
    }

    private static Object sync(RLock lock, Request request) throws Exception {
        switch (request.op()) {
            case "lock":
                lock(lock, request);
                return null;
            case "trylock":
                return tryLock(lock, request);
            case "unlock":
                lock.unlock();
                return null;
            case "force":
                return lock.forceUnlock();
            case "isLocked":
                return lock.isLocked();
            case "isHeld":
                return lock.isHeldByCurrentThread();
            case "holdCount":
                return lock.getHoldCount();
            case "ttl":
                return lock.remainTimeToLive();
            default:
                return fenced((RFencedLock) lock, request);
        }
    }

    private static void lock(RLock lock, Request request) throws InterruptedException {
        boolean leased = request.has("lease");
        if (request.interruptibly() && leased) {
            lock.lockInterruptibly(request.lease(), MILLISECONDS);
        } else if (request.interruptibly()) {
            lock.lockInterruptibly();
        } else if (leased) {
            lock.lock(request.lease(), MILLISECONDS);
        } else {
            lock.lock();
        }
    }

    private static boolean tryLock(RLock lock, Request request) throws InterruptedException {
        if (request.has("lease")) {
            return lock.tryLock(request.waiting(), request.lease(), MILLISECONDS);
        }
        if (request.has("wait")) {
            return lock.tryLock(request.waiting(), MILLISECONDS);
        }
        return lock.tryLock();
    }

    private static Object fenced(RFencedLock lock, Request request) {
        switch (request.op()) {
            case "getToken":
                return lock.getToken();
            case "lockToken":
                return request.has("lease")
                        ? lock.lockAndGetToken(request.lease(), MILLISECONDS)
                        : lock.lockAndGetToken();
            case "tryLockToken":
                if (request.has("lease")) {
                    return lock.tryLockAndGetToken(request.waiting(), request.lease(), MILLISECONDS);
                }
                return request.has("wait")
                        ? lock.tryLockAndGetToken(request.waiting(), MILLISECONDS)
                        : lock.tryLockAndGetToken();
            default:
                throw new IllegalArgumentException("no op " + request.op());
        }
    }

    /** Runs a request for any thread number. It does not block; the returned stage completes later. */
    private static Object async(RLock lock, Request request) {
        long thread = request.threadId();
        switch (request.op()) {
            case "lock":
                return lock.lockAsync(request.lease(), MILLISECONDS, thread);
            case "trylock":
                return request.has("wait") || request.has("lease")
                        ? lock.tryLockAsync(request.waiting(), request.lease(), MILLISECONDS, thread)
                        : lock.tryLockAsync(thread);
            case "unlock":
                return lock.unlockAsync(thread);
            case "isHeld":
                return lock.isHeldByThread(thread);
            default:
                throw new IllegalArgumentException("no " + request.op() + " for a thread number");
        }
    }
}
