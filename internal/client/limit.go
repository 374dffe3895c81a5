package client

import (
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/clock"
)

// The limits of a client's log. A line may be about an outage that concerns ten thousand holds at once.
const (
	sameLine  = time.Second // the same message about the same lock comes at most once in this time, or a little longer
	perSecond = 5           // lines of one message in one second
)

// logLimit drops log lines that come too often. The zero value has dropped none. It is safe for concurrent use.
type logLimit struct {
	mu      sync.Mutex    // a leaf
	window  clock.Instant // the beginning of the present second
	written map[string]int
	names   map[said]struct{} // in the present second
	before  map[said]struct{} // in the second before
	dropped int
}

// said is a message about a lock.
type said struct{ message, lock string }

// allow reports whether a line may be logged. If it may, it returns how many lines were dropped before it.
func (l *logLimit) allow(message, lock string, now clock.Instant) (dropped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.names == nil || now.Sub(l.window) >= sameLine {
		if now.Sub(l.window) < 2*sameLine {
			l.before = l.names
		} else {
			l.before = nil
		}
		l.window, l.written, l.names = now, make(map[string]int), make(map[said]struct{})
	}
	s := said{message, lock}
	_, recent := l.before[s]
	_, present := l.names[s]
	if recent || present || l.written[message] == perSecond {
		l.dropped++
		return 0, false
	}
	l.written[message]++
	l.names[s] = struct{}{}
	dropped, l.dropped = l.dropped, 0
	return dropped, true
}
