package goredis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
)

// serverError is an error that a server replies.
type serverError string

func (e serverError) Error() string { return string(e) }

func (serverError) RedisError() {}

// oldScript is the text that Redis 6.2 puts before the error of a command inside a script.
const oldScript = "ERR Error running script (call to f_3f978495885997a04cd2e6d60eeeb18a528395b2): @user_script:10: @user_script: 10: "

func TestClassify(t *testing.T) {
	t.Parallel()
	timeout := &net.OpError{Op: "read", Err: context.DeadlineExceeded}
	for _, test := range []struct {
		err              error
		fate             fault.Fate
		code             string
		transient, stale bool
	}{
		{err: serverError("WRONGTYPE Operation against a key"), code: "WRONGTYPE"},
		{err: serverError(oldScript + "-WRONGTYPE Operation against a key"), code: "WRONGTYPE"},
		{err: serverError("ERR Error running script: WRONGTYPE Operation"), code: "WRONGTYPE"},
		{err: serverError("NOPERM this user has no permissions"), code: "NOPERM"},
		{
			err:  serverError("ERR The user executing the script can't run this command or subcommand script: 6267, on @user_script:1."),
			code: "NOPERM", fate: fault.Partial,
		},
		{err: serverError(oldScript + "The user executing the script can't run this command or subcommand"), fate: fault.Partial, code: "NOPERM"}, // Redis 6.2
		{err: serverError("@user_script: 10: The user executing the script can't access at least one of the keys mentioned in the command arguments"), fate: fault.Partial, code: "NOPERM"},
		{err: serverError("ERR ACL failure in script: User app has no permissions to run the 'hdel' command script: 62, on @user_script:1."), fate: fault.Partial, code: "NOPERM"}, // since 7.2
		{err: serverError("ERR ACL failure in script: No permissions to access a channel script: 62, on @user_script:1."), fate: fault.Partial, code: "NOPERM"},
		{err: serverError("ERR AUTH <password> called without any password configured for the default user."), code: "WRONGPASS"},
		{err: serverError("WRONGPASS invalid username-password pair"), code: "WRONGPASS"},
		{err: serverError("NOAUTH Authentication required."), code: "NOAUTH"},
		{err: serverError("ERR unauthenticated"), code: "NOAUTH"},
		{err: serverError("ERR Protocol error: unauthenticated multibulk length"), code: "NOAUTH"}, // Redis 7.0, to a long command
		{err: serverError("ERR unknown command 'SSUBSCRIBE'"), code: "unknown"},
		{err: serverError("CROSSSLOT Keys in request don't hash to the same slot"), code: "CROSSSLOT"},
		{err: serverError("LOADING Redis is loading"), code: "LOADING", transient: true},
		{err: serverError("ERR max number of clients reached"), code: "max", transient: true},
		{err: serverError("BUSYGROUP exists"), code: "BUSYGROUP"},
		{err: serverError("NOREPLICAS Not enough good replicas"), code: "NOREPLICAS", transient: true},
		{err: serverError(oldScript + "-NOREPLICAS Not enough good replicas"), code: "NOREPLICAS", transient: true},
		{err: serverError("READONLY You can't write"), code: "READONLY", transient: true, stale: true},
		{err: serverError("@user_script: 1: -READONLY You can't write"), code: "READONLY", transient: true, stale: true},
		{err: serverError("ERR no such thing: -READONLY"), code: "no"},
		{err: fmt.Errorf("hook: %w", serverError("CLUSTERDOWN Hash slot not served")), code: "CLUSTERDOWN", transient: true, stale: true},
		{err: serverError("MOVED 1 127.0.0.1:1"), code: "MOVED", stale: true},
		{err: serverError("ERR Script attempted to access a non local key in a cluster node"), fate: fault.Partial, code: "Script", transient: true},
		{err: fmt.Errorf("%w: string for a number", fault.ErrReply), fate: fault.InDoubt},
		{err: redis.ErrClosed, fate: fault.NotSent},
		{err: redis.ErrPoolTimeout, fate: fault.NotSent, transient: true},
		{err: redis.ErrPoolExhausted, fate: fault.NotSent, transient: true},
		{err: &net.OpError{Op: "dial", Err: io.EOF}, fate: fault.NotSent, transient: true, stale: true},
		{err: &tls.CertificateVerificationError{Err: errors.New("unknown authority")}, fate: fault.NotSent},
		{err: timeout, fate: fault.InDoubt, transient: true, stale: true},
		{err: io.EOF, fate: fault.InDoubt, transient: true, stale: true},
		{err: errors.New("of a hook"), fate: fault.InDoubt, transient: true},
	} {
		got := (&Driver{}).classify(test.err)
		want := &fault.Error{Fate: test.fate, Code: test.code, Transient: test.transient, Stale: test.stale, Err: test.err}
		require.ErrorIs(t, got, test.err)
		want.Err = got.Err // which may say more
		require.Equal(t, want, got, test.err.Error())
	}
	require.Nil(t, (&Driver{}).classify(nil))
	cluster := &Driver{cluster: &redis.ClusterClient{}}
	for _, text := range []string{"MOVED 1 127.0.0.1:1", "ASK 1 127.0.0.1:1"} {
		require.True(t, cluster.classify(serverError(text)).Transient, "a cluster's client follows")
	}
}

func TestErrorsBeforeSending(t *testing.T) {
	t.Parallel()
	d := &Driver{}
	require.Equal(t, fault.NotSent, d.beforeSending(io.EOF).Fate)
	require.Equal(t, fault.Rejected, d.beforeSending(serverError("ERR no cluster")).Fate)
}
