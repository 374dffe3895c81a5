package main

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"             //nolint:depguard // a peer, to be measured
	"github.com/redis/rueidis/rueidislock" //nolint:depguard // a peer, to be measured
)

// openRueidis returns rueidislock; set changes what it comes with.
func openRueidis(set func(*rueidislock.LockerOption)) func(Cell) (Library, error) {
	return func(c Cell) (Library, error) {
		option := rueidislock.LockerOption{ClientOption: rueidis.ClientOption{InitAddress: c.Addrs}}
		if c.Lease > 0 {
			option.KeyValidity = c.Lease // renewed every half of it
		}
		set(&option)
		locker, err := rueidislock.NewLocker(option)
		if err != nil {
			return nil, err
		}
		return rueidisLibrary{locker}, nil
	}
}

func asItComes(*rueidislock.LockerOption) {}

// oneKey takes the lock for a mutex on one server: one key of one, and no notice of what the process did itself.
func oneKey(option *rueidislock.LockerOption) {
	option.KeyMajority = 1
	option.NoLoopTracking = true
	// A try that takes longer is given up, and the next one waits for news of the key. With NoLoopTracking there are none
	// of what the process itself deletes: on a busy machine the default of 20 ms stops it for good.
	option.TryNextAfter = time.Second
}

type rueidisLibrary struct{ locker rueidislock.Locker }

func (l rueidisLibrary) Handle(name string) Handle {
	return &rueidisHandle{locker: l.locker, name: name}
}

func (rueidisLibrary) Key(name string) string {
	return strings.Join([]string{"rueidislock", "0", name}, ":")
}

type rueidisHandle struct {
	locker rueidislock.Locker
	name   string
	cancel context.CancelFunc
}

func (h *rueidisHandle) Lock(ctx context.Context) error {
	_, cancel, err := h.locker.WithContext(ctx, h.name)
	h.cancel = cancel
	return err
}

// Unlock waits until the keys are deleted. Whether they were there is not told.
func (h *rueidisHandle) Unlock(context.Context) error {
	h.cancel()
	return nil
}
