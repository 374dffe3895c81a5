package differential

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

// genuine is a redis-server whose clock stands.
type genuine struct {
	t     *testing.T
	clock *redistest.Clock
	main  *conn
	subs  []*conn
}

func startGenuine(t *testing.T) *genuine {
	t.Helper()
	server, clock := redistest.StartWithClock(t)
	clock.Stop(began)
	r := &genuine{t: t, clock: clock, main: dial(t, server.Addr)}
	for range conns {
		r.subs = append(r.subs, dial(t, server.Addr))
	}
	return r
}

func (r *genuine) play(steps []step) []any {
	r.t.Helper()
	now := began
	r.clock.Stop(now)
	for _, c := range r.subs {
		c.reset()
		c.got = nil
	}
	r.main.doAll([][]string{{"FLUSHALL"}, {"SCRIPT", "FLUSH"}})
	outcomes := make([]any, len(steps))
	var sent []int // commands without a reply yet
	receive := func() {
		r.main.flush()
		for _, i := range sent {
			outcomes[i] = r.main.read()
		}
		sent = sent[:0]
	}
	const most = 64 // so that replies do not fill the buffers while commands are sent
	for i, step := range steps {
		if step.after > 0 || step.what != command || len(sent) == most {
			receive()
		}
		if step.after > 0 {
			now = now.Add(step.after)
			r.clock.Stop(now)
		}
		switch step.what {
		case command:
			r.main.send(step.args...)
			sent = append(sent, i)
		case compare:
			messages := make([]any, len(r.subs))
			for j, c := range r.subs {
				messages[j] = c.messages()
			}
			outcomes[i] = []any{messages, contents(r.main.doAll)}
		case drop:
			r.subs[step.conn-1].reset()
		default:
			r.subs[step.conn-1].subscribe(step.what, step.args[0])
		}
	}
	receive()
	return outcomes
}

// conn is a connection to the server, which speaks RESP 2.
type conn struct {
	t   *testing.T
	raw net.Conn
	out *bufio.Writer
	in  *bufio.Reader
	got []any // messages
}

func dial(t *testing.T, addr string) *conn {
	t.Helper()
	raw, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = raw.Close() })
	return &conn{t: t, raw: raw, out: bufio.NewWriterSize(raw, 1<<16), in: bufio.NewReaderSize(raw, 1<<16)}
}

func (c *conn) send(args ...string) {
	fmt.Fprintf(c.out, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(c.out, "$%d\r\n%s\r\n", len(arg), arg)
	}
}

func (c *conn) flush() { require.NoError(c.t, c.out.Flush()) }

func (c *conn) doAll(commands [][]string) (replies []any) {
	for _, args := range commands {
		c.send(args...)
	}
	c.flush()
	for range commands {
		replies = append(replies, c.read())
	}
	return replies
}

func (c *conn) read() any {
	c.t.Helper()
	// A script that never ends, in the server, must not hang the test.
	require.NoError(c.t, c.raw.SetReadDeadline(time.Now().Add(time.Minute)))
	line, err := c.in.ReadString('\n')
	require.NoError(c.t, err)
	line = strings.TrimSuffix(line, "\r\n")
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return simredis.Status(rest)
	case '-':
		return simredis.Err(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	require.NoError(c.t, err)
	switch {
	case kind == ':':
		return n
	case n < 0:
		return nil
	case kind == '$':
		text := make([]byte, n+2)
		_, err := io.ReadFull(c.in, text)
		require.NoError(c.t, err)
		return string(text[:n])
	}
	all := []any{}
	for range n {
		all = append(all, c.read())
	}
	return all
}

// subscribe waits for the confirmation. Messages may come before it.
func (c *conn) subscribe(what, name string) {
	c.send(what, name)
	c.flush()
	c.until(func(reply any) bool {
		list, _ := reply.([]any)
		return len(list) == 3 && list[0] == what && list[1] == name
	})
}

// reset ends all subscriptions.
func (c *conn) reset() {
	c.send("RESET")
	c.flush()
	c.until(func(reply any) bool { return reply == simredis.Status("RESET") })
}

// messages returns those that have come since the last time.
func (c *conn) messages() (all []any) {
	c.send("PING", "here")
	c.flush()
	c.until(func(reply any) bool {
		list, _ := reply.([]any)
		return reply == "here" || len(list) == 2 && list[0] == "pong" && list[1] == "here"
	})
	all, c.got = c.got, nil
	return all
}

func (c *conn) until(over func(reply any) bool) {
	c.t.Helper()
	for {
		reply := c.read()
		if over(reply) {
			return
		}
		c.got = append(c.got, reply)
	}
}
