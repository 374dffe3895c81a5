package main

import (
	"context"
	"slices"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/rlockrueidis"
)

// openRlock opens rlock on go-redis with the given options.
func openRlock(options ...rlock.Option) func(Cell) (Library, error) {
	return openOn(func(c Cell, options ...rlock.Option) (*rlock.Client, error) {
		rdb, err := c.goRedis()
		if err != nil {
			return nil, err
		}
		return rlock.New(rdb, options...)
	}, options...)
}

// openRlockRueidis opens rlock on rueidis with the given options.
func openRlockRueidis(options ...rlock.Option) func(Cell) (Library, error) {
	return openOn(func(c Cell, options ...rlock.Option) (*rlock.Client, error) {
		client, err := c.rueidis()
		if err != nil {
			return nil, err
		}
		return rlockrueidis.New(client, options...)
	}, options...)
}

// openOn opens rlock on what connect makes, with the given options and the lease of the cell.
func openOn(
	connect func(c Cell, options ...rlock.Option) (*rlock.Client, error), options ...rlock.Option,
) func(Cell) (Library, error) {
	return func(c Cell) (Library, error) {
		all := slices.Clone(options)
		if c.Lease > 0 {
			all = append(all, rlock.WithWatchdogTimeout(c.Lease))
		}
		client, err := connect(c, all...)
		if err != nil {
			return nil, err
		}
		if c.Permits > 0 {
			return rlockPermits{client: client, permits: c.Permits}, nil
		}
		return rlockLibrary{client}, nil
	}
}

// openRlockFair opens rlock with the defaults, for fair locks.
func openRlockFair(c Cell) (Library, error) {
	lib, err := openRlock()(c)
	if err != nil {
		return nil, err
	}
	return rlockFairLibrary{lib.(rlockLibrary)}, nil
}

type rlockLibrary struct{ client *rlock.Client }

func (l rlockLibrary) Handle(name string) Handle { return rlockHandle{l.client.NewLock(name)} }

type rlockFairLibrary struct{ rlockLibrary }

func (l rlockFairLibrary) Handle(name string) Handle { return rlockHandle{l.client.NewFairLock(name)} }

// Together returns a handle of a multi lock.
func (l rlockLibrary) Together(names []string) Handle {
	locks := make([]*rlock.Lock, len(names))
	for i, name := range names {
		locks[i] = l.client.NewLock(name)
	}
	return &multiHandle{lock: rlock.NewMultiLock(locks...)}
}

func (rlockLibrary) Key(name string) string { return name }

type multiHandle struct {
	lock *rlock.MultiLock
	hold *rlock.Hold // the lock protects it
}

func (h *multiHandle) Lock(ctx context.Context) error {
	hold, err := h.lock.Acquire(ctx)
	if err == nil {
		h.hold = hold
	}
	return err
}

func (h *multiHandle) Unlock(ctx context.Context) error { return h.hold.Unlock(ctx) }

type rlockHandle struct{ lock *rlock.Lock }

func (h rlockHandle) Lock(ctx context.Context) error { return h.lock.Lock(ctx) }

func (h rlockHandle) Unlock(ctx context.Context) error { return h.lock.Unlock(ctx) }
