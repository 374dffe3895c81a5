package testkit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit/connect"
	"github.com/go-rlock/rlock/internal/wire"
)

var releaseByTurns = sync.OnceValue(func() *wire.Script { return core.Scripts()["release by turns"] })

// FakeServer is a hook that replies to every command itself, without a server. It is safe for concurrent use.
type FakeServer struct {
	mu     sync.Mutex
	script string // the script that gets reply; every other command succeeds, and most get 1
	reply  any
	Acks   any               // the reply to WAIT
	Last   redistest.Command // the last command that ran the script
	At     time.Time         // the time of that command
}

// Fake sets the reply to a script from now on.
func (s *FakeServer) Fake(script string, reply any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script, s.reply = script, reply
}

func (s *FakeServer) run(cmd redis.Cmder) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var command redistest.Command
	for _, arg := range cmd.Args() {
		command = append(command, fmt.Sprint(arg))
	}
	reply := any(int64(1))
	switch {
	case command[0] == "wait":
		reply = s.Acks
	case s.script != "" && Runs(s.script)(command):
		reply, s.Last, s.At = s.reply, command, time.Now()
		if n, _ := reply.(int64); n < 0 && runs(command, core.Scripts()["acquire by turns"]) {
			reply = []any{int64(0), s.At.UnixMicro(), -1 - n, int64(-1), int64(1), int64(0)}
		}
	case runs(command, releaseByTurns()):
		reply = []any{int64(1), time.Now().UnixMicro(), int64(0), int64(0)}
	}
	if err, failed := reply.(error); failed {
		cmd.SetErr(err)
		return err
	}
	cmd.(interface{ SetVal(val any) }).SetVal(reply)
	return nil
}

// DialHook does nothing.
func (*FakeServer) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook replies to one command.
func (s *FakeServer) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error { return s.run(cmd) }
}

// ProcessPipelineHook replies to each command of a pipeline.
func (s *FakeServer) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) (err error) {
		for _, cmd := range cmds {
			err = errors.Join(err, s.run(cmd))
		}
		return err
	}
}

// NewFakeServer returns a fake server and a client that is connected to it. The command timeout is short, unless opts set it.
func NewFakeServer(tb testing.TB, opts ...rlock.Option) (*FakeServer, *rlock.Client) {
	tb.Helper()
	connect.NeedsGoRedis(tb)
	s := &FakeServer{}
	const timeout = 100 * time.Millisecond
	rdb := redistest.Open(tb, &redis.Options{Addr: "127.0.0.1:1", ReadTimeout: timeout})
	rdb.AddHook(s)
	return s, NewClient(tb, rdb, append([]rlock.Option{rlock.WithLogger(Discard), rlock.WithCommandTimeout(timeout)}, opts...)...)
}

// ServerError is an error reply of a server.
type ServerError string

// Error returns the text of the reply.
func (e ServerError) Error() string { return string(e) }

// RedisError marks it as an error reply of Redis.
func (ServerError) RedisError() {}

// ReplyOf decodes arbitrary bytes into a value that go-redis may return for a reply of either protocol.
func ReplyOf(in []byte, depth int) (v any, rest []byte) {
	take := func(n int) []byte {
		n = min(n, len(in))
		part := in[:n]
		in = in[n:]
		return part
	}
	first := take(1)
	if len(first) == 0 {
		return nil, nil
	}
	number := func() int64 {
		var eight [8]byte
		copy(eight[:], take(8))
		return int64(binary.LittleEndian.Uint64(eight[:]))
	}
	size := int(first[0] >> 4)
	switch first[0] & 15 {
	case 0:
		return nil, in
	case 1, 2:
		return number(), in
	case 3:
		return int64(size) - 3, in
	case 4:
		return string(take(size)), in
	case 5:
		return strconv.FormatInt(number(), 10), in
	case 6:
		return math.Float64frombits(uint64(number())), in
	case 7:
		return size > 0, in
	case 8:
		return ServerError(transientOrNot[size%len(transientOrNot)] + string(take(size))), in
	case 9:
		if depth == 0 {
			return map[any]any{}, in
		}
		value, rest := ReplyOf(in, depth-1)
		return map[any]any{"key": value}, rest
	default:
		all := make([]any, 0, size)
		for range size {
			if depth == 0 {
				break
			}
			var value any
			value, in = ReplyOf(in, depth-1)
			all = append(all, value)
		}
		return all, in
	}
}

var transientOrNot = []string{"ERR ", "NOSCRIPT ", "LOADING ", "MOVED 1 127.0.0.1:1", "WRONGTYPE ", "NOPERM ", ""}
