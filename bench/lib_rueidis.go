package main

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// openRueidis opens rueidislock. The function set changes its default options.
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

func defaults(*rueidislock.LockerOption) {}

// oneKey configures a mutex on one server: one key of one, and no tracking of the process's own changes.
func oneKey(option *rueidislock.LockerOption) {
	option.KeyMajority = 1
	option.NoLoopTracking = true
	// rueidislock gives up a try that takes longer, and the next try waits for a notification about the key. With
	// NoLoopTracking there is none when the process itself deletes the key. On a busy machine, the default of 20 ms
	// therefore makes it hang forever.
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

// Unlock waits until the keys are deleted. It cannot report whether they still existed.
func (h *rueidisHandle) Unlock(context.Context) error {
	h.cancel()
	return nil
}
