package main

import (
	"context"

	"github.com/bsm/redislock"
)

// openBSM opens redislock. Its default is not to wait; here it polls.
func openBSM(c Cell) (Library, error) {
	rdb, err := c.goRedis()
	if err != nil {
		return nil, err
	}
	lib := &bsmLibrary{client: redislock.New(rdb), cell: c}
	if c.Permits > 0 {
		return &slots{lib, tryBSM, c}, nil
	}
	return lib, nil
}

type bsmLibrary struct {
	client *redislock.Client
	cell   Cell
}

func (l *bsmLibrary) Handle(name string) Handle {
	return &bsmHandle{lib: l, name: name, options: redislock.Options{RetryStrategy: redislock.LinearBackoff(l.cell.poll())}}
}

func (*bsmLibrary) Key(name string) string { return name }

type bsmHandle struct {
	lib     *bsmLibrary
	name    string
	options redislock.Options
	lock    *redislock.Lock
}

func (h *bsmHandle) Lock(ctx context.Context) (err error) {
	h.lock, err = h.lib.client.Obtain(ctx, h.name, h.lib.cell.lease(), &h.options)
	return err
}

func (h *bsmHandle) Unlock(ctx context.Context) error { return h.lock.Release(ctx) }
