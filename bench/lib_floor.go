package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// The floor is the minimum for any library: a raw pair of scripts.
var (
	floorTake    = redis.NewScript(floorTakeSource)
	floorGive    = redis.NewScript(floorGiveSource)
	floorGiveOut = redis.NewScript(`if redis.call('get', KEYS[1]) == ARGV[1] then
	redis.call('del', KEYS[1])
	redis.call('publish', ARGV[2], '')
	return 1
end
return 0`)
	floorRenew = redis.NewScript(`local renewed = 0
for _, key in ipairs(KEYS) do
	if redis.call('get', key) == ARGV[1] then renewed = renewed + redis.call('pexpire', key, ARGV[2]) end
end
return renewed`)
)

const (
	floorTakeSource = `return redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2])`
	floorGiveSource = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`

	floorToken   = "0123456789abcdef0123456789abcdef"
	floorChannel = "released"
	floorBatch   = 100
)

var errTaken = errors.New("the floor has no waiters, and its lock is taken")

// openFloor opens the floor. In S5 it waits for a message; in S6 one goroutine renews all locks.
func openFloor(c Cell) (Library, error) {
	rdb, err := c.goRedis()
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	load := func(ctx context.Context, node redis.Scripter) error {
		for _, script := range []*redis.Script{floorTake, floorGive, floorGiveOut, floorRenew} {
			if err := script.Load(ctx, node).Err(); err != nil {
				return err
			}
		}
		return nil
	}
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return load(ctx, node) })
	} else {
		err = load(ctx, rdb)
	}
	if err != nil {
		return nil, err
	}
	if c.Permits > 0 {
		return openFloorPermits(ctx, rdb, c.Permits)
	}
	lib := &floorLibrary{rdb: rdb, lease: strconv.FormatInt(c.lease().Milliseconds(), 10)}
	switch c.Scenario {
	case "S5":
		lib.sub = rdb.Subscribe(ctx, floorChannel)
		if _, err := lib.sub.Receive(ctx); err != nil {
			return nil, err
		}
	case "S6":
		lib.renews = true
		go lib.renew(ctx, c.Lease/3)
	}
	return lib, nil
}

type floorLibrary struct {
	rdb    redis.UniversalClient
	lease  string
	sub    *redis.PubSub // nil means that the floor does not wait
	renews bool

	mu   sync.Mutex
	held []string // the names to renew; a renewing floor never unlocks
}

func (l *floorLibrary) Handle(name string) Handle { return &floorHandle{lib: l, keys: []string{name}} }

func (*floorLibrary) Key(name string) string { return name }

// renew renews all locks once per interval, in batches.
func (l *floorLibrary) renew(ctx context.Context, every time.Duration) {
	for {
		l.mu.Lock()
		held := slices.Clone(l.held)
		l.mu.Unlock()
		next := time.Now().Add(every)
		for keys := range slices.Chunk(held, floorBatch) {
			floorRenew.Run(ctx, l.rdb, keys, floorToken, l.lease) // an error shows up as a lost lock
		}
		time.Sleep(time.Until(next))
	}
}

type floorHandle struct {
	lib  *floorLibrary
	keys []string
}

func (h *floorHandle) Lock(ctx context.Context) error {
	l := h.lib
	for {
		err := l.rdb.EvalSha(ctx, floorTake.Hash(), h.keys, floorToken, l.lease).Err()
		if !errors.Is(err, redis.Nil) {
			if err == nil && l.renews {
				l.mu.Lock()
				l.held = append(l.held, h.keys[0])
				l.mu.Unlock()
			}
			return err
		}
		if l.sub == nil {
			return errTaken
		}
		// Messages of earlier releases come first, and each costs a try. The measured waiter has time for that.
		if _, err := l.sub.ReceiveMessage(ctx); err != nil {
			return err
		}
	}
}

func (h *floorHandle) Unlock(ctx context.Context) error {
	l := h.lib
	if l.sub != nil {
		return l.rdb.EvalSha(ctx, floorGiveOut.Hash(), h.keys, floorToken, floorChannel).Err()
	}
	return l.rdb.EvalSha(ctx, floorGive.Hash(), h.keys, floorToken).Err()
}
