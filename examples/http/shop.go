package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-rlock/rlock"
)

// invoiceLock returns the lock of an invoice. All layers lock by the same name, and may be called with or without the lock.
func invoiceLock(locks *rlock.Client, id string) *rlock.Lock { return locks.NewLock("invoice:" + id) }

// shop has the rules.
type shop struct {
	locks    *rlock.Client
	invoices *repository
	provider provider
}

// pay charges for an invoice, unless it is paid. It locks, because not only requests call it. In a request it re-enters the lock that
// ctx carries. The lock keeps others away, but does not remember what was done: the receipt does.
func (s *shop) pay(ctx context.Context, id string) error {
	return invoiceLock(s.locks, id).Do(ctx, func(ctx context.Context) error {
		receipt, err := s.invoices.receipt(ctx, id)
		if receipt != "" || err != nil {
			return err
		}
		if receipt, err = s.provider.charge(ctx, id); err != nil {
			return err
		}
		return s.invoices.settle(ctx, id, receipt)
	})
}

// repository keeps the invoices. A real one would have a database. Here they are in Redis, under other keys than the locks.
type repository struct {
	locks *rlock.Client
	rdb   *redis.Client
}

var errPaidTwice = errors.New("the invoice has another receipt")

// receipt returns the receipt of an invoice, which is empty if it is not paid.
func (r *repository) receipt(ctx context.Context, id string) (string, error) {
	receipt, err := r.rdb.Get(ctx, "shop:receipt:"+id).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return receipt, err
}

// settle stores the receipt of an invoice. It reads before it writes, so it locks, too.
func (r *repository) settle(ctx context.Context, id, receipt string) error {
	return invoiceLock(r.locks, id).Do(ctx, func(ctx context.Context) error {
		before, err := r.receipt(ctx, id)
		if err != nil {
			return err
		}
		if before != "" {
			return fmt.Errorf("invoice %s, receipts %s and %s: %w", id, before, receipt, errPaidTwice)
		}
		return r.rdb.Set(ctx, "shop:receipt:"+id, receipt, 0).Err()
	})
}

// provider stands for a payment provider.
type provider struct{ takes time.Duration }

// charge ends when ctx does, as a call over the network would. The cause says why: the lock is lost, the client has left, or the
// process shuts down. The number of the invoice would be the provider's idempotency key, for a lock that is lost after the charge.
func (p provider) charge(ctx context.Context, id string) (receipt string, err error) {
	slog.InfoContext(ctx, "charging", slog.String("invoice", id))
	select {
	case <-time.After(p.takes):
		return rand.Text(), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
