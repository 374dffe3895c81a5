// Package memnet is a network in memory, for bubbles of testing/synctest: what waits on it is durably blocked. Addresses and errors are
// those of the loopback interface, and every transmission takes a drawn time.
package memnet

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Latency is the longest time that a transmission takes. Zero means none. Set it before the first connection.
var Latency time.Duration

// network has the listeners by their ports.
var network = struct {
	sync.Mutex
	listeners map[int]*listener
	next      int // port that was not given yet
}{listeners: map[int]*listener{}, next: 10000}

var loopback = net.IPv4(127, 0, 0, 1)

// takes draws the time of a transmission.
func takes() time.Duration {
	if Latency <= 0 {
		return 0
	}
	return 1 + rand.N(Latency)
}

func failed(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Err: err}
}

type listener struct {
	port   int
	conns  chan *conn
	closed chan struct{}
	once   sync.Once
}

// NewPort returns a port that nobody else gets.
func NewPort() int {
	network.Lock()
	defer network.Unlock()
	network.next++
	return network.next
}

// Listen listens on a port. Nobody else may.
func Listen(port int) (net.Listener, error) {
	network.Lock()
	defer network.Unlock()
	if network.listeners[port] != nil {
		return nil, failed("listen", os.NewSyscallError("bind", syscall.EADDRINUSE))
	}
	l := &listener{port: port, conns: make(chan *conn, 4096), closed: make(chan struct{})}
	network.listeners[port] = l
	return l, nil
}

// Accept returns the next connection. Those that were made before are accepted even if nobody waits for them, as the kernel does.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, failed("accept", net.ErrClosed)
	}
}

// Close ends Accept, and the connections that it has not returned.
func (l *listener) Close() error {
	l.once.Do(func() {
		network.Lock()
		delete(network.listeners, l.port)
		network.Unlock()
		close(l.closed)
		for {
			select {
			case c := <-l.conns:
				_ = c.Close()
			default:
				return
			}
		}
	})
	return nil
}

// Addr returns the address.
func (l *listener) Addr() net.Addr { return &net.TCPAddr{IP: loopback, Port: l.port} }

// DialContext connects to a listener. It has the form of [net.Dialer.DialContext].
func DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	if err := await(ctx, takes()); err != nil {
		return nil, failed("dial", err)
	}
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, failed("dial", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, failed("dial", err)
	}
	network.Lock()
	defer network.Unlock() // or else the listener could close meanwhile
	l := network.listeners[port]
	if l == nil {
		return nil, failed("dial", os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
	network.next++
	client, server := pipe(&net.TCPAddr{IP: loopback, Port: network.next}, &net.TCPAddr{IP: loopback, Port: l.port})
	select {
	case l.conns <- server:
		return client, nil
	default:
		return nil, failed("dial", errors.New("the backlog is full"))
	}
}

// await lets a time pass, unless the context ends.
func await(ctx context.Context, d time.Duration) error {
	if d == 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
