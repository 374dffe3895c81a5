package simserver

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/simulation/internal/memnet"
)

// fixture is a server in a bubble.
type fixture struct {
	*testing.T
	*Server
	ran []string
}

func run(t *testing.T, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		f := &fixture{T: t}
		f.Server = Start(func(_ int64, args []string) { f.ran = append(f.ran, strings.Join(args, " ")) })
		defer f.Kill()
		test(f)
	})
}

// client is a connection to the server, which speaks in lines.
type client struct {
	*testing.T
	net.Conn
	in *bufio.Reader
}

func (f *fixture) connect() *client {
	f.Helper()
	conn, err := memnet.DialContext(f.Context(), "tcp", (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: f.Port}).String())
	require.NoError(f, err)
	f.Cleanup(func() { _ = conn.Close() })
	return &client{f.T, conn, bufio.NewReader(conn)}
}

// send sends a command.
func (c *client) send(command string) {
	c.Helper()
	var out writer
	args := []any{}
	for arg := range strings.FieldsSeq(command) {
		args = append(args, arg)
	}
	out.list('*', len(args), args)
	_, err := c.Write(out.Bytes())
	require.NoError(c, err)
}

// gets reads what comes next.
func (c *client) gets(lines ...string) {
	c.Helper()
	for _, want := range lines {
		line, err := c.in.ReadString('\n')
		require.NoError(c, err)
		require.Equal(c, want+"\r\n", line)
	}
}

func TestReplies(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		c := f.connect()
		c.send("SET key value")
		c.send("GET key") // before the first reply
		c.gets("+OK", "$5", "value")
		c.send("INCR key")
		c.gets("-ERR value is not an integer or out of range")
		c.send("GET none")
		c.gets("$-1")
		c.send("HELLO 3")
		for range 7 * 2 {
			_, err := c.in.ReadString('\n')
			require.NoError(c, err)
		}
		require.Equal(f, "SET key value", f.ran[0])
	})
}

func TestMessages(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		old, other := f.connect(), f.connect()
		old.send("SUBSCRIBE a b")
		old.gets("*3", "$9", "subscribe", "$1", "a", ":1", "*3", "$9", "subscribe", "$1", "b", ":2")
		other.send("PUBLISH b hello")
		other.gets(":1")
		old.gets("*3", "$7", "message", "$1", "b", "$5", "hello")
		old.send("QUIT")
		old.gets("+OK")
		_, err := old.in.ReadByte()
		require.Error(f, err)
	})
}

func TestAPausedServerKeepsWhatItGets(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		f.Pause()
		c := f.connect()
		c.send("PING")
		time.AfterFunc(time.Hour, f.Resume)
		began := time.Now()
		c.gets("+PONG")
		require.Equal(f, time.Hour, time.Since(began))
	})
}

func TestAKilledServer(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		c := f.connect()
		c.send("SET key value")
		c.gets("+OK")
		data := f.Data()
		f.Pause()
		f.Kill()
		_, err := c.in.ReadByte()
		require.Error(f, err)
		_, err = memnet.DialContext(f.Context(), "tcp", c.RemoteAddr().String())
		require.Error(f, err)
		f.Server.Run()
		c = f.connect()
		c.send("DBSIZE")
		c.gets(":0")
		f.Restart(data)
		c = f.connect()
		c.send("GET key")
		c.gets("$5", "value")
	})
}

func TestTheClockOfAServer(t *testing.T) {
	t.Parallel()
	run(t, func(f *fixture) {
		c := f.connect()
		c.send("SET key value EX 60")
		c.gets("+OK")
		f.SetAhead(time.Minute + time.Second)
		c.send("EXISTS key")
		c.gets(":0")
		f.StopClock(time.Unix(1, 0))
		time.Sleep(time.Hour)
		c.send("TIME")
		c.gets("*2", "$1", "1", "$1", "0")
	})
}
