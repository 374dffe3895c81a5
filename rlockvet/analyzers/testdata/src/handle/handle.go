package handle

import (
	"context"

	"github.com/go-rlock/rlock"
)

func unused(client *rlock.Client, rw *rlock.RWLock) {
	client.NewLock("a")                 // want `^the handle is not used, so this does nothing: call its methods$`
	client.NewFairLock("a")             // want `the handle is not used`
	client.NewLock("a", rlock.Fenced()) // want `the handle is not used`
	client.NewSpinLock("a")             // want `the handle is not used`
	client.NewRWLock("a")               // want `the handle is not used`
	client.NewSemaphore("a")            // want `the handle is not used`
	client.NewPlainSemaphore("a")       // want `the handle is not used`
	(client.NewCountDownLatch("a"))     // want `the handle is not used`
	client.NewElection("a")             // want `the handle is not used`
	rw.Reader()                         // want `the handle is not used`
	rw.Writer()                         // want `the handle is not used`
	rlock.NewMultiLock(rw.Writer())     // want `the handle is not used`
	rlock.NewRedLock(rw.Writer())       // want `the handle is not used`
	_ = client.NewLock("a")             // want `the handle is not used`
	_, n := client.NewSemaphore("a"), 1 // want `the handle is not used`
	_ = n
	var _ = rw.Reader() // want `the handle is not used`
}

var _ interface {
	Unlock(ctx context.Context) error
} = (*rlock.Lock)(nil)

func used(ctx context.Context, client *rlock.Client) (*rlock.Lock, error) {
	lock := client.NewLock("a")
	_ = lock
	if err := client.NewRWLock("a").Reader().Lock(ctx); err != nil {
		return nil, err
	}
	client.NewLock("a").Unlock(ctx)
	return client.NewFairLock("a"), nil
}
