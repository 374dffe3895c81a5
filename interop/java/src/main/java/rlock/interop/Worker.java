package rlock.interop;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** One real thread, for a lock asks which thread calls it. What it is given runs in turn. */
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
        queue.execute(() -> { }); // starts the thread, so that there is one to interrupt
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
