package memnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// half is one direction of a connection. Its buffers have no limit, so that a write never blocks.
type half struct {
	mu     sync.Mutex
	parts  []part
	last   time.Time     // when the last part arrives, or the end
	ended  bool          // nothing comes after the parts
	news   chan struct{} // closed when something here or a deadline has changed
	expiry time.Time     // of the reader; zero means none
	shut   bool          // the reader has closed the connection
}

// part is what one write has sent.
type part struct {
	bytes   []byte
	arrives time.Time
}

// changed wakes the reader. h.mu must be held.
func (h *half) changed() {
	close(h.news)
	h.news = make(chan struct{})
}

// send adds bytes, or the end, which arrive after all that was sent before.
func (h *half) send(bytes []byte, end bool) {
	arrives := time.Now().Add(takes())
	if arrives.Before(h.last) {
		arrives = h.last
	}
	h.last = arrives
	if len(bytes) > 0 {
		h.parts = append(h.parts, part{append([]byte(nil), bytes...), arrives})
	}
	h.ended = h.ended || end
	h.changed()
}

// take reads what has arrived. If there is nothing yet, it returns when to look again, at the latest: zero means at the next change.
func (h *half) take(p []byte) (n int, again time.Time, err error) {
	now := time.Now()
	switch {
	case h.shut:
		return 0, again, failed("read", net.ErrClosed)
	case !h.expiry.IsZero() && !now.Before(h.expiry):
		return 0, again, failed("read", os.ErrDeadlineExceeded)
	case len(h.parts) > 0 && !now.Before(h.parts[0].arrives):
		n = copy(p, h.parts[0].bytes)
		if h.parts[0].bytes = h.parts[0].bytes[n:]; len(h.parts[0].bytes) == 0 {
			h.parts = h.parts[1:]
		}
		return n, again, nil
	case len(h.parts) > 0:
		again = h.parts[0].arrives
	case h.ended && !now.Before(h.last):
		return 0, again, io.EOF
	case h.ended:
		again = h.last
	}
	if !h.expiry.IsZero() && (again.IsZero() || h.expiry.Before(again)) {
		again = h.expiry
	}
	return 0, again, nil
}

type conn struct {
	in, out       *half
	local, remote *net.TCPAddr

	mu     sync.Mutex
	expiry time.Time // of writes; zero means none
	closed bool
}

// pipe returns the two ends of a connection.
func pipe(client, server *net.TCPAddr) (c, s *conn) {
	up, down := &half{news: make(chan struct{})}, &half{news: make(chan struct{})}
	return &conn{in: down, out: up, local: client, remote: server}, &conn{in: up, out: down, local: server, remote: client}
}

// Read waits until something has arrived.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		c.in.mu.Lock()
		n, again, err := c.in.take(p)
		news := c.in.news
		c.in.mu.Unlock()
		if n > 0 || err != nil {
			return n, err
		}
		if again.IsZero() {
			<-news
			continue
		}
		timer := time.NewTimer(time.Until(again))
		select {
		case <-timer.C:
		case <-news:
		}
		timer.Stop()
	}
}

// Write sends. It does not wait until anything arrives.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	closed, expiry := c.closed, c.expiry
	c.mu.Unlock()
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	switch {
	case closed:
		return 0, failed("write", net.ErrClosed)
	case !expiry.IsZero() && !time.Now().Before(expiry):
		return 0, failed("write", os.ErrDeadlineExceeded)
	case c.out.shut:
		return 0, failed("write", os.NewSyscallError("write", syscall.EPIPE))
	}
	c.out.send(p, false)
	return len(p), nil
}

// Close ends both directions. The other end reads what was sent before.
func (c *conn) Close() error {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return failed("close", net.ErrClosed)
	}
	c.out.mu.Lock()
	c.out.send(nil, true)
	c.out.mu.Unlock()
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.shut = true
	c.in.changed()
	return nil
}

// LocalAddr returns the address of this end.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the address of the other end.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetWriteDeadline(t)
	return c.SetReadDeadline(t)
}

// SetReadDeadline sets when reads fail.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.expiry = t
	c.in.changed()
	return nil
}

// SetWriteDeadline sets when writes fail.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expiry = t
	return nil
}
