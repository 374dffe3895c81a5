package simredis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// client is a connection that notes what it gets.
type client struct {
	*Conn
	t   *testing.T
	got []string
}

func (f *fixture) connect() *client {
	c := &client{t: f.T}
	var err error
	c.Conn, err = f.Connect("127.0.0.1:1", func(message []any) { c.got = append(c.got, fmt.Sprint(message...)) }, func() { c.got = append(c.got, "ended") })
	require.NoError(f, err)
	return c
}

func (c *client) do(words string) any { return c.Do(strings.Fields(words)...) }

func TestADroppedRightEndsWhoListens(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("ACL SETUSER u on nopass +@all ~* &a &b*")
	c, other := f.connect(), f.connect()
	require.Equal(t, Status("OK"), c.do("AUTH u any"))
	require.Equal(t, Several{[]any{"subscribe", "a", int64(1)}}, c.do("SUBSCRIBE a"))
	require.Equal(t, Several{[]any{"psubscribe", "b*", int64(2)}}, c.do("PSUBSCRIBE b*"))
	other.do("SUBSCRIBE a")
	f.do("ACL SETUSER u resetchannels &a &b*")
	require.False(t, c.Closed(), "it may listen to all of them")
	f.do("ACL SETUSER u resetchannels &a")
	require.True(t, c.Closed())
	require.Equal(t, []string{"ended"}, c.got)
	require.Equal(t, int64(1), f.do("PUBLISH a m"), "of the other user")
	require.False(t, other.Closed())
}

func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := f.connect()
	f.do("CONFIG SET maxclients 1")
	_, err := f.Connect("127.0.0.1:2", nil, nil)
	require.Equal(t, Err("ERR max number of clients reached"), err)
	c.Close()
	require.Empty(t, c.got, "its client has ended it")
	f.connect()
	require.Contains(t, f.do("INFO stats"), "total_connections_received:3")
}

func TestAKilledConnectionEndsAfterItsReply(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := f.connect(), f.connect()
	b.do("SUBSCRIBE c")
	require.Equal(t, int64(1), a.do("CLIENT KILL TYPE pubsub"))
	require.Equal(t, []string{"ended"}, b.got)
	require.Equal(t, int64(1), a.do("CLIENT KILL TYPE normal SKIPME no"))
	require.Equal(t, []string{"ended"}, a.got)
	require.IsType(t, Err(""), a.do("PING"))
	f.Reset(nil)
	require.Equal(t, []string{"ended"}, a.got, "once")
}

func TestResetEndsConnectionsAndForgetsUsersAndSettings(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := f.connect()
	f.do("ACL SETUSER default -get")
	f.do("CONFIG SET maxmemory 1")
	require.IsType(t, Err(""), f.do("GET k"))
	f.Reset(nil)
	require.Equal(t, []string{"ended"}, c.got)
	require.Nil(t, f.do("GET k"))
	require.Equal(t, Status("OK"), f.do("SET k v"))
}

func TestStatesThatRefuseCommands(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.SetLoading(true)
	require.Equal(t, errLoading, f.do("GET k"))
	require.Equal(t, errLoading, f.eval("return 1"))
	require.IsType(t, "", f.do("INFO"))
	f.SetLoading(false)
	f.SetBusy(true)
	require.Equal(t, errBusy, f.do("GET k"))
	require.Equal(t, Status("OK"), f.do("SCRIPT KILL"))
	f.FailSaves(true)
	require.Equal(t, Status("Background saving started"), f.do("BGSAVE"))
	require.Equal(t, errUnsaved, f.do("SET k v"))
	require.Equal(t, errUnsaved, f.do("PING"))
	require.Nil(t, f.do("GET k"))
	f.do("CONFIG SET stop-writes-on-bgsave-error no")
	require.Equal(t, Status("OK"), f.do("SET k v"))
}

func TestEvictionFreesMemory(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("CONFIG SET maxmemory 1100000 maxmemory-policy volatile-ttl")
	f.do("SET lasting v")
	f.do("SET later v PX 9000")
	f.do("SET sooner v PX 1000")
	text := strings.Repeat("x", 60_000)
	require.Equal(t, Status("OK"), f.Do("SET", "a", text))
	require.Equal(t, Status("OK"), f.Do("SET", "b", text))
	require.Equal(t, errOOM, f.do("SET c v"))
	require.Equal(t, []string{"a", "b", "lasting"}, f.Keys())
	f.do("CONFIG SET maxmemory 1050000 maxmemory-policy allkeys-random")
	require.Equal(t, Status("OK"), f.do("SET c v"))
}
