package rlock.interop;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** One real thread, because a Redisson lock belongs to the calling thread. It runs its tasks in order. */
final class Worker {

    private final ExecutorService queue;
    private volatile Thread thread;

    Worker() {
        queue = Executors.newSingleThreadExecutor(run -> {
            Thread made = new Thread(run);
            made.setDaemon(true);
            thread = made;
            return made;
        });
        queue.execute(() -> { }); // starts the thread, so that it can be interrupted
    }

    void execute(Runnable work) {
        queue.execute(work);
    }

    void interrupt() {
        thread.interrupt();
    }

    void close() {
        queue.shutdownNow();
    }
}
