// Package rlock stands for the library. TestTheStubIsTheAPI compares it with the library.
package rlock

import (
	"context"
	"log/slog"
	"time"
)

var (
	ErrNotAcquired error
	ErrUnavailable error
	ErrNotHeld     error
	ErrLost        error
)

type (
	Client         struct{}
	Lock           struct{}
	RWLock         struct{}
	MultiLock      struct{}
	RedLock        struct{}
	Semaphore      struct{}
	PlainSemaphore struct{}
	CountDownLatch struct{}
	Election       struct{}
	Hold           struct{}

	LockOption    interface{}
	AcquireOption interface{ LockOption }
	Token         uint64
)

type acquirer interface {
	Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) error
}

func Lease(d time.Duration) AcquireOption        { return nil }
func RenewedLease(d time.Duration) AcquireOption { return nil }
func Wait(d time.Duration) AcquireOption         { return nil }
func AtLeast(d time.Duration) AcquireOption      { return nil }
func Permits(n int) AcquireOption                { return nil }

func Fenced() LockOption                                      { return nil }
func NonReentrant() LockOption                                { return nil }
func WriterPreference() LockOption                            { return nil }
func Total(n int) LockOption                                  { return nil }
func Backoff(first, longest time.Duration) LockOption         { return nil }
func WithOwner(ctx context.Context) context.Context           { return ctx }
func EnsureOwner(ctx context.Context) context.Context         { return ctx }
func HoldFrom(ctx context.Context, of acquirer) (*Hold, bool) { return nil, false }
func NewMultiLock(locks ...*Lock) *MultiLock                  { return nil }
func NewRedLock(locks ...*Lock) *RedLock                      { return nil }

func DoValue[T any](
	ctx context.Context, of acquirer, fn func(context.Context) (T, error), opts ...AcquireOption,
) (value T, err error) {
	return value, err
}

func (c *Client) NewLock(name string, opts ...LockOption) *Lock                     { return nil }
func (c *Client) NewFairLock(name string, opts ...LockOption) *Lock                 { return nil }
func (c *Client) NewRWLock(name string, opts ...LockOption) *RWLock                 { return nil }
func (c *Client) NewSpinLock(name string, opts ...LockOption) *Lock                 { return nil }
func (c *Client) NewSemaphore(name string, opts ...LockOption) *Semaphore           { return nil }
func (c *Client) NewPlainSemaphore(name string, opts ...LockOption) *PlainSemaphore { return nil }
func (c *Client) NewCountDownLatch(name string) *CountDownLatch                     { return nil }
func (c *Client) NewElection(name string, opts ...AcquireOption) *Election          { return nil }
func (c *Client) Close() error                                                      { return nil }
func (c *Client) Shutdown(ctx context.Context) error                                { return nil }

func (rw *RWLock) Reader() *Lock { return nil }
func (rw *RWLock) Writer() *Lock { return nil }

func (l *Lock) Lock(ctx context.Context, opts ...AcquireOption) error { return nil }
func (l *Lock) TryLock(ctx context.Context, opts ...AcquireOption) (bool, error) {
	return false, nil
}
func (l *Lock) Acquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return nil, nil
}
func (l *Lock) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return nil, nil
}
func (l *Lock) Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) error {
	return nil
}
func (l *Lock) TryDo(
	ctx context.Context, fn func(context.Context) error, opts ...AcquireOption,
) (ran bool, err error) {
	return false, nil
}
func (l *Lock) Unlock(ctx context.Context) error              { return nil }
func (l *Lock) ForceUnlock(ctx context.Context) (bool, error) { return false, nil }
func (l *Lock) IsLocked(ctx context.Context) (bool, error)    { return false, nil }
func (l *Lock) HoldCount(ctx context.Context) (int, error)    { return 0, nil }

func (m *MultiLock) Acquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return nil, nil
}
func (m *MultiLock) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return nil, nil
}
func (m *MultiLock) Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) error {
	return nil
}
func (m *MultiLock) TryDo(
	ctx context.Context, fn func(context.Context) error, opts ...AcquireOption,
) (ran bool, err error) {
	return false, nil
}

func (r *RedLock) Acquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) { return nil, nil }
func (r *RedLock) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return nil, nil
}
func (r *RedLock) Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) error {
	return nil
}
func (r *RedLock) TryDo(
	ctx context.Context, fn func(context.Context) error, opts ...AcquireOption,
) (ran bool, err error) {
	return false, nil
}

func (s *Semaphore) Acquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return nil, nil
}
func (s *Semaphore) TryAcquire(ctx context.Context, opts ...AcquireOption) (*Hold, error) {
	return nil, nil
}
func (s *Semaphore) Do(ctx context.Context, fn func(context.Context) error, opts ...AcquireOption) error {
	return nil
}
func (s *Semaphore) TryDo(
	ctx context.Context, fn func(context.Context) error, opts ...AcquireOption,
) (ran bool, err error) {
	return false, nil
}
func (s *Semaphore) Release(ctx context.Context, ids ...string) error { return nil }

func (s *PlainSemaphore) Acquire(ctx context.Context, opts ...AcquireOption) error { return nil }
func (s *PlainSemaphore) Release(ctx context.Context, n int) error                 { return nil }
func (s *PlainSemaphore) AddPermits(ctx context.Context, more int) error           { return nil }

func (l *CountDownLatch) TrySetCount(ctx context.Context, n int64) (bool, error) { return false, nil }
func (l *CountDownLatch) CountDown(ctx context.Context) (left int64, err error)  { return 0, nil }
func (l *CountDownLatch) Await(ctx context.Context, opts ...AcquireOption) error { return nil }

func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, term Token) error) error {
	return nil
}
func (e *Election) IsLeader() bool { return false }

func (h *Hold) Context() context.Context                          { return nil }
func (h *Hold) Done() <-chan struct{}                             { return nil }
func (h *Hold) Err() error                                        { return nil }
func (h *Hold) Deadline() time.Time                               { return time.Time{} }
func (h *Hold) Token() Token                                      { return 0 }
func (h *Hold) PermitIDs() []string                               { return nil }
func (h *Hold) LogValue() slog.Value                              { return slog.Value{} }
func (h *Hold) String() string                                    { return "" }
func (h *Hold) Unlock(ctx context.Context) error                  { return nil }
func (h *Hold) Extend(ctx context.Context, d time.Duration) error { return nil }
