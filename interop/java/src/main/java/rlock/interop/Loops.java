package rlock.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Runs loops concurrently, each in a thread of its own. */
final class Loops {

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final List<Future<Long>> running = new ArrayList<>();

    void start(int times, Callable<Long> loop) {
        for (int i = 0; i < times; i++) {
            running.add(threads.submit(loop));
        }
    }

    /** Waits for all loops and returns their results. Throws the first exception if a loop failed. */
    List<Long> results() throws Exception {
        threads.shutdown();
        List<Long> results = new ArrayList<>();
        for (Future<Long> one : running) {
            results.add(one.get());
        }
        return results;
    }
}
