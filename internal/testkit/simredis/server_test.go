package simredis

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fixture is a server whose clock stands until the test moves it.
type fixture struct {
	*testing.T
	*Server
	at time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	f.Server = New(func() time.Time { return f.at })
	return f
}

// do runs a command, of which spaces separate the words.
func (f *fixture) do(words string) any { return f.Do(strings.Fields(words)...) }

// eval runs a script without keys.
func (f *fixture) eval(source string, args ...string) any {
	return f.Do(append([]string{"EVAL", source, "0"}, args...)...)
}

func TestAKeyLivesThroughItsLastMillisecond(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("SET k v PX 10")
	f.at = f.at.Add(10*time.Millisecond + 999*time.Microsecond)
	require.Equal(t, int64(0), f.do("PTTL k"))
	require.Equal(t, "v", f.do("GET k"))
	f.at = f.at.Add(time.Microsecond)
	require.Nil(t, f.do("GET k"))
	require.Empty(t, f.Keys())
	require.Equal(t, int64(0), f.do("DBSIZE"))
}

func TestTimeStandsStillInAScript(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("SET k v PX 2")
	now := f.at
	f.Clock = func() time.Time { now = now.Add(time.Millisecond); return now }
	require.Equal(t, []any{"v", "v", "v", "v", "v", "v"}, f.eval("local all = {}\nfor i = 1, 6 do all[i] = redis.call('GET', 'k') end\nreturn all"))
	for range 3 {
		f.do("GET k")
	}
	require.Nil(t, f.do("GET k"), "each command has its own time")
	require.Equal(t, int64(1), f.eval("local a, b = redis.call('TIME'), redis.call('TIME')\nreturn a[1] == b[1] and a[2] == b[2]"))
}

func TestACloneIsApart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("SET s 1 PX 1000")
	f.do("HSET h f 1")
	f.do("RPUSH l a b")
	f.do("ZADD z 1 m")
	clone := f.DB().Clone()
	f.do("INCR s")
	f.do("PERSIST s")
	f.do("HSET h f 2 g 3")
	f.do("LPOP l")
	f.do("ZADD z 2 m 3 n")
	f.do("DEL h")
	f.Reset(clone)
	require.Equal(t, []string{"h", "l", "s", "z"}, f.Keys())
	require.Equal(t, "1", f.do("GET s"))
	require.Equal(t, int64(1000), f.do("PTTL s"))
	require.Equal(t, []any{"f", "1"}, f.do("HGETALL h"))
	require.Equal(t, []any{"a", "b"}, f.do("LRANGE l 0 -1"))
	require.Equal(t, []any{"m", "1"}, f.do("ZRANGE z 0 -1 WITHSCORES"))
}

func TestResetIsARestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	sub := &Subscriber{Send: func(string, string) { t.Error("a subscriber outlived the server") }}
	f.Subscribe("c", sub, false)
	f.Subscribe("c", sub, true)
	digest, _ := f.do("SCRIPT LOAD return").(string)
	f.do("SET k v")
	f.Reset(nil)
	require.Empty(t, f.Keys())
	require.Equal(t, int64(0), f.do("PUBLISH c m"))
	require.Equal(t, int64(0), f.do("SPUBLISH c m"))
	require.Equal(t, []any{int64(0)}, f.Do("SCRIPT", "EXISTS", digest))
}

func TestEveryCommandCountsItsArguments(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, name := range Commands() {
		c := table[name]
		if name == "EXEC" { // which wraps the error
			continue
		}
		least := max(c.arity, -c.arity)
		if least > 1 {
			require.Equal(t, errArity(strings.ToLower(name)), f.Do(name), name)
		}
		if c.arity > 0 {
			require.Equal(t, errArity(strings.ToLower(name)), f.Do(append([]string{name}, make([]string, least)...)...), name)
		}
	}
	require.Equal(t, errArity("pubsub|numpat"), f.do("pubsub NumPat x"))
	require.Equal(t, errArity("script|load"), f.do("SCRIPT LOAD"))
}

func TestEveryCommandOfATypeRefusesTheOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("SET string 1")
	f.do("HSET hash f 1")
	f.do("RPUSH list a")
	f.do("ZADD zset 1 m")
	keys := []string{"string", "hash", "list", "zset"}
	before := f.DB().Clone()
	for kind, commands := range map[string]map[string]run{
		"string": stringCommands, "hash": hashCommands, "list": listCommands, "zset": zsetCommands,
	} {
		for name := range commands {
			c := table[name]
			args := []string{name, "", "1", "1", "1"}[:max(2, c.arity, -c.arity)]
			if name == "SET" { // which replaces whatever there is
				args = []string{name, "", "1", "NX", "GET"}
			}
			for _, key := range keys {
				args[1] = key
				if key != kind {
					require.Equal(t, errWrongType, f.Do(args...), "%q", args)
				}
			}
		}
	}
	require.Equal(t, before, f.DB(), "nothing has changed")
}

func TestCommandsThatRedisDoesNotKnow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.Equal(t, Err("ERR unknown command 'NoSuch', with args beginning with: 'a' 'b' "), f.do("NoSuch a b"))
	require.Equal(t, Err("ERR unknown subcommand 'x'. Try PUBSUB HELP."), f.do("pubsub x"))
	require.IsType(t, Err(""), f.Do())
	require.Equal(t, Err("ERR simredis subscribes by its methods"), f.do("SUBSCRIBE c"))
	// What Redis knows and simredis does not is an error, too, and never a wrong reply.
	for _, form := range []string{"HRANDFIELD h -1", "HRANDFIELD h 1 WITHVALUES", "LPOS l a RANK 1", "LPOS l a COUNT 1", "ZRANGE z - + BYLEX"} {
		reply, _ := f.do(form).(Err)
		require.Contains(t, string(reply), "simredis does not know this form", form)
	}
}
