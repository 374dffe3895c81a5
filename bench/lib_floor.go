package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	floorTake = `return redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2])`
	floorGive = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`

	floorGiveOut = `if redis.call('get', KEYS[1]) == ARGV[1] then
	redis.call('del', KEYS[1])
	redis.call('publish', ARGV[2], '')
	return 1
end
return 0`
	floorRenewal = `local renewed = 0
for _, key in ipairs(KEYS) do
	if redis.call('get', key) == ARGV[1] then renewed = renewed + redis.call('pexpire', key, ARGV[2]) end
end
return renewed`
	floorDraw = `if redis.call('incr', KEYS[1]) > tonumber(ARGV[1]) then
	redis.call('decr', KEYS[1])
	return false
end
return 0`
	floorReturn = `redis.call('decr', KEYS[1]) return 1`

	floorToken   = "0123456789abcdef0123456789abcdef"
	floorChannel = "released"
	floorBatch   = 100
)

// openFloor opens the floor: a raw pair of scripts. In S5 it waits for a message; in S6 one goroutine renews all locks.
func openFloor(c Cell) (Library, error) {
	ctx := context.Background()
	pair := floorPair
	if c.Scenario == "S5" {
		pair = func(_ context.Context, c *Cell) (rawPair, error) {
			return rawPair{script(floorTake, floorToken, c.leaseMs()), script(floorGiveOut, floorToken, floorChannel)}, nil
		}
	}
	raw, err := newRaw(ctx, &c, bareOnGoRedis, pair)
	if err != nil || c.Scenario != "S5" && c.Scenario != "S6" {
		return raw, err
	}
	rdb := raw.client.(bareGoRedis).rdb
	if c.Scenario == "S6" {
		lib := &renewedFloor{rawLibrary: raw}
		go lib.renew(ctx, rdb, c.leaseMs(), c.Lease/3)
		return lib, nil
	}
	sub := rdb.Subscribe(ctx, floorChannel)
	_, err = sub.Receive(ctx)
	return passedFloor{raw, sub}, err
}

// renewedFloor renews what it has locked. It never unlocks.
type renewedFloor struct {
	*rawLibrary

	mu   sync.Mutex
	held []string
}

func (l *renewedFloor) Handle(name string) Handle {
	return &renewedHandle{l.rawLibrary.Handle(name), l, name}
}

// renew renews all locks once per interval, in batches.
func (l *renewedFloor) renew(ctx context.Context, rdb redis.UniversalClient, lease string, every time.Duration) {
	renewal := redis.NewScript(floorRenewal)
	for {
		l.mu.Lock()
		held := slices.Clone(l.held)
		l.mu.Unlock()
		next := time.Now().Add(every)
		for keys := range slices.Chunk(held, floorBatch) {
			renewal.Run(ctx, rdb, keys, floorToken, lease) // an error shows up as a lost lock
		}
		time.Sleep(time.Until(next))
	}
}

type renewedHandle struct {
	Handle

	lib  *renewedFloor
	name string
}

func (h *renewedHandle) Lock(ctx context.Context) error {
	err := h.Handle.Lock(ctx)
	if err == nil {
		h.lib.mu.Lock()
		h.lib.held = append(h.lib.held, h.name)
		h.lib.mu.Unlock()
	}
	return err
}

// passedFloor waits for a message.
type passedFloor struct {
	*rawLibrary

	sub *redis.PubSub
}

func (l passedFloor) Handle(name string) Handle {
	return &passedHandle{l.rawLibrary.Handle(name), l.sub}
}

type passedHandle struct {
	Handle

	sub *redis.PubSub
}

func (h *passedHandle) Lock(ctx context.Context) error {
	for {
		if err := h.Handle.Lock(ctx); !errors.Is(err, errTaken) {
			return err
		}
		// Messages of earlier releases come first, and each costs a try. The measured waiter has time for that.
		if _, err := h.sub.ReceiveMessage(ctx); err != nil {
			return err
		}
	}
}
