package rlock.interop;

import java.lang.reflect.InvocationTargetException;
import java.util.List;
import org.redisson.RedissonMultiLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Creates the lock that a request names. */
final class Kinds {

    private Kinds() {
    }

    static RLock lock(RedissonClient redisson, Request request) throws Exception {
        List<String> names = request.texts("names");
        if (request.text("kind").equals("multi")) {
            return new RedissonMultiLock(names.stream().map(redisson::getLock).toArray(RLock[]::new));
        }
        return lock(redisson, request.text("kind"), names.get(0));
    }

    static RLock lock(RedissonClient redisson, String kind, String name) throws Exception {
        return switch (kind) {
            case "lock" -> redisson.getLock(name);
            case "fair" -> redisson.getFairLock(name);
            case "read" -> redisson.getReadWriteLock(name).readLock();
            case "write" -> redisson.getReadWriteLock(name).writeLock();
            case "fenced" -> redisson.getFencedLock(name);
            case "spin" -> redisson.getSpinLock(name);
            case "nonreentrant" -> byName(redisson, "getNonReentrantLock", name);
            case "nonreentrantfair" -> byName(redisson, "getNonReentrantFairLock", name);
            default -> throw new IllegalArgumentException("no kind " + kind);
        };
    }

    /** Calls a getter that older versions of Redisson do not have. */
    private static RLock byName(RedissonClient redisson, String getter, String name) throws Exception {
        try {
            return (RLock) RedissonClient.class.getMethod(getter, String.class).invoke(redisson, name);
        } catch (InvocationTargetException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
    }
}
