package redistest

import (
	"bufio"
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest/host"
)

// Proxy stands between clients and one server. It applies network faults to chosen commands.
// All methods are safe for concurrent use.
type Proxy struct {
	Addr string

	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	target string
	conns  map[*pipe]struct{}
	faults []*Fault
	passed []Command // commands that reached the server
	frozen chan struct{}
	opened int
	closed bool
	split  time.Duration
	delay  time.Duration
	forget bool
}

// Fault is a network fault that a Proxy applies to the commands that match.
type Fault struct {
	proxy   *Proxy
	match   func(Command) bool
	times   int // still to apply; negative means no limit
	action  action
	met     chan struct{} // one token per matched command
	release chan struct{}
}

type action int

const (
	dropReply action = iota
	swallowReply
	holdRequest
	holdReply
)

// pipe is one connection through the proxy.
type pipe struct {
	client, server net.Conn

	mu    sync.Mutex
	reply *Fault // applies to the next reply
}

// NewProxy starts a proxy in front of a server and stops it when the test ends.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	l, err := host.Listen()
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listener: l, conns: make(map[*pipe]struct{})}
	p.wg.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for _, f := range p.faults {
		f.free()
	}
	p.faults = nil
	p.mu.Unlock()
	p.Thaw()
	p.CloseAll()
	p.wg.Wait()
}

// DropReply lets a command reach the server and then breaks the connection instead of forwarding the reply. Like the other
// faults, it applies to the next times commands that match; a negative times means no limit.
func (p *Proxy) DropReply(times int, match func(Command) bool) *Fault {
	return p.add(dropReply, times, match)
}

// SwallowReply lets a command reach the server and forwards nothing more from the server on its connection, which stays open.
func (p *Proxy) SwallowReply(times int, match func(Command) bool) *Fault {
	return p.add(swallowReply, times, match)
}

// HoldRequest keeps a command, and everything after it on its connection, until Release. After that it reaches the server
// even if the client is gone.
func (p *Proxy) HoldRequest(times int, match func(Command) bool) *Fault {
	return p.add(holdRequest, times, match)
}

// HoldReply lets a command reach the server and keeps the reply until Release.
func (p *Proxy) HoldReply(times int, match func(Command) bool) *Fault {
	return p.add(holdReply, times, match)
}

func (p *Proxy) add(a action, times int, match func(Command) bool) *Fault {
	f := &Fault{
		proxy: p, match: match, times: times, action: a,
		met: make(chan struct{}, 10000), release: make(chan struct{}),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f)
	return f
}

// Met returns a channel with a token for each command that the fault was applied to. It buffers up to 10,000 tokens.
func (f *Fault) Met() <-chan struct{} { return f.met }

func (f *Fault) meet() {
	select {
	case f.met <- struct{}{}:
	default:
	}
}

// Release forwards everything that the fault holds, and ends the fault.
func (f *Fault) Release() {
	f.proxy.mu.Lock()
	defer f.proxy.mu.Unlock()
	f.times = 0
	f.free()
	f.proxy.faults = slices.DeleteFunc(f.proxy.faults, func(other *Fault) bool { return other == f })
}

// free ends the holding of commands. The proxy's mu must be held.
func (f *Fault) free() {
	select {
	case <-f.release:
	default:
		close(f.release)
	}
}

// CloseAll breaks every connection.
func (p *Proxy) CloseAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.close()
	}
}

// LeadTo makes the proxy lead new connections to another server. The others stay where they are.
func (p *Proxy) LeadTo(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Freeze turns the network into a black hole. Connections stay open, and nothing passes in either direction until Thaw.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
}

// Thaw ends Freeze and forwards everything that was kept.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

// Split makes the server's output arrive in two parts, the second one later by the given duration. Zero means one part.
func (p *Proxy) Split(apart time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.split = apart
}

// Delay makes the server's output arrive later by the given duration.
func (p *Proxy) Delay(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = by
}

// Forget clears the record behind Count and stops recording. Long tests call it because the record would grow with every
// command.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passed, p.forget = nil, true
}

// Count returns the number of recorded commands that match. A command is recorded when it reaches the server.
func (p *Proxy) Count(match func(Command) bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, c := range p.passed {
		if match(c) {
			n++
		}
	}
	return n
}

// Opened returns how many connections have been opened through the proxy so far.
func (p *Proxy) Opened() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		server, err := host.Dial(context.Background(), "tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &pipe{client: client, server: server}
		p.mu.Lock()
		p.opened++
		if p.closed {
			c.close()
		}
		p.conns[c] = struct{}{}
		p.mu.Unlock()
		p.wg.Go(func() { p.forward(c) })
		p.wg.Go(func() { p.backward(c) })
	}
}

func (c *pipe) close() {
	_ = c.client.Close()
	_ = c.server.Close()
}

// awaitThaw waits until the network is not frozen.
func (p *Proxy) awaitThaw() {
	p.mu.Lock()
	frozen := p.frozen
	p.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

// forward passes commands to the server.
func (p *Proxy) forward(c *pipe) {
	defer func() {
		c.close()
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
	}()
	in := bufio.NewReader(c.client)
	for {
		cmd, raw, err := readCommand(in)
		if err != nil {
			return
		}
		p.awaitThaw()
		if f := p.fault(cmd); f != nil {
			if f.action == holdRequest {
				f.meet()
				<-f.release
			} else {
				c.mu.Lock()
				c.reply = f
				c.mu.Unlock()
			}
		}
		p.mu.Lock()
		if !p.forget {
			p.passed = append(p.passed, cmd) // before the write, so that a client with a reply finds its command counted
		}
		p.mu.Unlock()
		if _, err := c.server.Write(raw); err != nil {
			return
		}
	}
}

// backward passes the server's output to the client. Tests that inject faults do not pipeline commands, so the next output
// after a command is its reply.
func (p *Proxy) backward(c *pipe) {
	buf := make([]byte, 64<<10)
	for {
		n, err := c.server.Read(buf)
		if err != nil {
			_ = c.client.Close()
			return
		}
		p.awaitThaw()
		c.mu.Lock()
		f := c.reply
		c.mu.Unlock()
		if f != nil {
			f.meet()
			switch f.action {
			case dropReply:
				c.close()
				return
			case swallowReply:
				continue // and everything after it
			case holdReply:
				<-f.release
				c.mu.Lock()
				c.reply = nil
				c.mu.Unlock()
			case holdRequest: // was applied to the request
			}
		}
		p.mu.Lock()
		split, delay := p.split, p.delay
		p.mu.Unlock()
		time.Sleep(delay)
		out := buf[:n]
		if split > 0 && n > 1 {
			if _, err := c.client.Write(out[:n/2]); err != nil {
				return
			}
			time.Sleep(split)
			out = out[n/2:]
		}
		if _, err := c.client.Write(out); err != nil {
			return // the client is gone, but forward still delivers its commands
		}
	}
}

// fault returns the fault that applies to a command, and uses up one of its times. Nil means none.
func (p *Proxy) fault(cmd Command) *Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.faults, func(f *Fault) bool { return f.times != 0 && f.match(cmd) })
	if i < 0 {
		return nil
	}
	p.faults[i].times--
	return p.faults[i]
}
