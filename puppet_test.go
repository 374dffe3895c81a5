package rlock_test

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
	"github.com/go-rlock/rlock/internal/redistest"
)

// puppet answers every command itself, so that no server is asked.
type puppet struct {
	mu     sync.Mutex
	script string // the one that is answered otherwise than by 1
	answer any
	acks   any               // what WAIT answers
	last   redistest.Command // that ran the script
	at     time.Time         // when that came
}

// fake sets what a script answers from now on.
func (p *puppet) fake(script string, answer any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.script, p.answer = script, answer
}

func (p *puppet) run(cmd redis.Cmder) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var command redistest.Command
	for _, arg := range cmd.Args() {
		command = append(command, fmt.Sprint(arg))
	}
	answer := any(int64(1))
	switch {
	case command[0] == "wait":
		answer = p.acks
	case rlock.Runs(p.script)(command):
		answer, p.last, p.at = p.answer, command, time.Now()
	}
	if err, failed := answer.(error); failed {
		cmd.SetErr(err)
		return err
	}
	cmd.(interface{ SetVal(val any) }).SetVal(answer)
	return nil
}

// DialHook is not used.
func (*puppet) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook answers a command.
func (p *puppet) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error { return p.run(cmd) }
}

// ProcessPipelineHook answers each of several.
func (p *puppet) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) (err error) {
		for _, cmd := range cmds {
			err = errors.Join(err, p.run(cmd))
		}
		return err
	}
}

// newPuppet returns a client whose commands a puppet answers.
func newPuppet(tb testing.TB, opts ...rlock.Option) (*puppet, *rlock.Client) {
	tb.Helper()
	p := &puppet{}
	const timeout = 20 * time.Millisecond
	rdb := redistest.Open(tb, &redis.Options{Addr: "127.0.0.1:1", ReadTimeout: timeout})
	rdb.AddHook(p)
	return p, newClient(tb, rdb, append(opts, rlock.WithLogger(discard), rlock.WithCommandTimeout(timeout))...)
}

// serverError is an error that a server answers.
type serverError string

func (e serverError) Error() string { return string(e) }

// RedisError marks it.
func (serverError) RedisError() {}

// replyOf makes of any bytes what go-redis may make of an answer, of either protocol.
func replyOf(in []byte, depth int) (v any, rest []byte) {
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
		return serverError(transientOrNot[size%len(transientOrNot)] + string(take(size))), in
	case 9:
		if depth == 0 {
			return map[any]any{}, in
		}
		value, rest := replyOf(in, depth-1)
		return map[any]any{"key": value}, rest
	default:
		all := make([]any, 0, size)
		for range size {
			if depth == 0 {
				break
			}
			var value any
			value, in = replyOf(in, depth-1)
			all = append(all, value)
		}
		return all, in
	}
}

var transientOrNot = []string{"ERR ", "NOSCRIPT ", "LOADING ", "MOVED 1 127.0.0.1:1", "WRONGTYPE ", "NOPERM ", ""}
