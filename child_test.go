package rlock_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// childEnv makes the test binary a process that takes a lock and holds it until it is killed: "<address> <name>".
const childEnv = "RLOCK_TEST_CHILD"

func childMain() {
	var addr, name string
	_, err := fmt.Sscan(os.Getenv(childEnv), &addr, &name)
	if err == nil {
		var locks *rlock.Client
		locks, err = rlock.New(redis.NewClient(&redis.Options{Addr: addr}), rlock.WithWatchdogTimeout(time.Second))
		if err == nil {
			err = locks.NewLock(name).Lock(context.Background())
		}
	}
	fmt.Println("child:", err)
	select {}
}

func TestTheLockOfAKilledProcessIsFreeAfterItsLease(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	name := newName()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+server.Addr+" "+name)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "child: <nil>\n", line)

	lock := newClient(t, server.Client(t)).NewLock(name)
	ok, err := lock.TryLock(t.Context(), rlock.Wait(2*time.Second))
	require.NoError(t, err)
	require.False(t, ok, "while it lives it is renewed")
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	start := time.Now()
	require.NoError(t, lock.Lock(t.Context(), rlock.Wait(aLongTime)))
	require.Less(t, time.Since(start), 3*time.Second)
	require.NoError(t, lock.Unlock(t.Context()))
}
