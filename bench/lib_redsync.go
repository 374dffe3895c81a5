package main

import (
	"context"
	"math"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
)

// openRedsync opens redsync on one server. It polls; its default is 32 times, every 50 to 250 ms.
func openRedsync(c Cell) (Library, error) {
	rdb, err := c.goRedis()
	if err != nil {
		return nil, err
	}
	lib := &redsyncLibrary{redsync.New(goredis.NewPool(rdb)), []redsync.Option{
		redsync.WithExpiry(c.lease()),
		redsync.WithTries(math.MaxInt),
		redsync.WithRetryDelay(c.poll()),
	}}
	if c.Permits > 0 {
		return &slots{lib, tryRedsync, c}, nil
	}
	return lib, nil
}

type redsyncLibrary struct {
	sync    *redsync.Redsync
	options []redsync.Option
}

func (l *redsyncLibrary) Handle(name string) Handle {
	return redsyncHandle{l.sync.NewMutex(name, l.options...)}
}

func (*redsyncLibrary) Key(name string) string { return name }

type redsyncHandle struct{ mutex *redsync.Mutex }

func (h redsyncHandle) Lock(ctx context.Context) error { return h.mutex.LockContext(ctx) }

func (h redsyncHandle) Unlock(ctx context.Context) error {
	_, err := h.mutex.UnlockContext(ctx)
	return err
}
