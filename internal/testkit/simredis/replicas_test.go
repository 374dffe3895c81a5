package simredis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAReplicaHasWhatItHasApplied(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("SET before 1")
	r := f.AddReplica("127.0.0.1", 2, "127.0.0.1", 1)
	require.Equal(t, "1", r.Do("GET", "before"), "it begins with a copy")
	f.do("SET k v PX 1000")
	f.do("SET k v NX")
	f.eval("redis.call('HSET', 'h', 'f', 1)\nredis.call('PEXPIRE', 'h', 500)\nreturn redis.call('PUBLISH', 'c', 'm')")
	require.Equal(t, 5, r.Behind(), "a SET that sets nothing is one, too")
	require.Nil(t, r.Do("GET", "k"))
	f.at = f.at.Add(100 * time.Millisecond)
	r.Apply(3)
	require.Equal(t, int64(900), r.Do("PTTL", "k"), "a lease ends when it ends at the master")
	require.Equal(t, int64(-1), r.Do("PTTL", "h"))
	r.Apply(100)
	require.Equal(t, int64(400), r.Do("PTTL", "h"))
	require.Zero(t, r.Behind())
}

// TestAnExpiredKeyOfAReplica: the replica hides it, and has it until its master removes it, so that late writes meet what they met there.
func TestAnExpiredKeyOfAReplica(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("HSET h f 1")
	r := f.AddReplica("127.0.0.1", 2, "127.0.0.1", 1)
	f.do("PEXPIRE h 10")
	f.do("HSET h g 2")
	f.do("PERSIST h")
	f.at = f.at.Add(time.Second)
	r.Apply(2)
	require.Equal(t, int64(0), r.Do("EXISTS", "h"))
	r.Apply(1)
	require.Equal(t, []any{"f", "1", "g", "2"}, r.Do("HGETALL", "h"))
	f.do("PEXPIRE h 10")
	f.at = f.at.Add(time.Second)
	f.do("HSET h new 3")
	r.Apply(100)
	require.Equal(t, []any{"new", "3"}, r.Do("HGETALL", "h"), "the master has told that the old one is gone")
}

func TestWaitCountsReplicasThatAreKnownToHaveIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := f.AddReplica("127.0.0.1", 2, "127.0.0.1", 1), f.AddReplica("127.0.0.1", 3, "127.0.0.1", 1)
	writer, err := f.Connect("127.0.0.1:9", nil, nil)
	require.NoError(t, err)
	reader, err := f.Connect("127.0.0.1:10", nil, nil)
	require.NoError(t, err)
	writer.Do("SET", "k", "v")
	require.Equal(t, int64(0), writer.Do("WAIT", "2", "10"))
	require.Equal(t, int64(2), reader.Do("WAIT", "2", "10"), "it has written nothing")
	a.Apply(1)
	require.Equal(t, int64(0), writer.Do("WAIT", "2", "10"), "the master does not know it")
	a.Acknowledge()
	require.Equal(t, int64(1), writer.Do("WAIT", "2", "10"))
	b.Cut()
	b.Acknowledge()
	require.Equal(t, int64(1), writer.Do("WAIT", "2", "10"), "the other one is not connected")
	f.do("CONFIG SET min-replicas-to-write 2")
	require.Equal(t, errNoReplicas, writer.Do("SET", "k", "w"))
	b.Sync()
	require.Equal(t, Status("OK"), writer.Do("SET", "k", "w"))
	require.Equal(t, []any{"master", int64(2), []any{[]any{"127.0.0.1", "2", "1"}, []any{"127.0.0.1", "3", "1"}}}, f.do("ROLE"))
}

func TestAFailoverLosesTheLastWrites(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.AddReplica("127.0.0.1", 2, "127.0.0.1", 1)
	f.do("SET k 1")
	r.Apply(1)
	f.do("SET k 2")
	require.Equal(t, errReadOnly, r.Do("SET", "k", "3"))
	require.Equal(t, []any{"slave", "127.0.0.1", int64(1), "connected", int64(1)}, r.Do("ROLE"))
	promoted := r.Promote()
	f.Demote("127.0.0.1", 2)
	require.Equal(t, "1", promoted.Do("GET", "k"))
	require.Equal(t, Status("OK"), promoted.Do("SET", "k", "3"))
	require.Equal(t, errReadOnly, f.do("SET k 4"))
	require.Equal(t, Err(string(errReadOnly)+" script: "+Digest("return redis.call('SET', 'k', 4)")+", on @user_script:1."),
		f.eval("return redis.call('SET', 'k', 4)"))
	require.Equal(t, "2", f.do("GET k"), "the old master has what was lost")
	require.Equal(t, []any{"master", int64(1), []any{}}, promoted.Do("ROLE"))
}
