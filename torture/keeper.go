package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/testkit/handles"
)

// keep holds the site's own locks, and a read lock that all sites share, until ctx ends. It reports each loss and acquires
// the lock again.
func (r *running) keep(ctx context.Context) {
	if r.Keepers == 0 {
		return
	}
	kinds := []string{kindLock, kindFenced, kindWrite, kindFair}
	if r.Place.Topology == topologyRed {
		kinds = []string{kindRed}
	}
	var wg sync.WaitGroup
	turns := make(chan struct{}, 4) // limits concurrent attempts: each needs a subscription or two
	for i := range r.Keepers {
		k := keeper{running: r, kind: kinds[i%len(kinds)], name: fmt.Sprintf("keep-%s-%d", r.Name, i), number: i}
		wg.Go(func() { k.keep(ctx, turns) })
	}
	if !slices.Contains(kinds, kindRed) {
		k := keeper{running: r, kind: kindRead, name: "readers"}
		wg.Go(func() { k.keep(ctx, turns) })
	}
	wg.Wait()
}

// keeper holds one lock for as long as its process lives.
type keeper struct {
	*running

	kind, name string
	number     int
}

func (k *keeper) keep(ctx context.Context, turns chan struct{}) {
	for ctx.Err() == nil {
		turns <- struct{}{}
		clients := k.all()
		lock := handle(clients, k.kind, k.name)
		t := Turn{
			ID: k.ids.Add(1), Site: k.Name, Worker: -1, Kind: k.kind, Names: []string{k.name}, Renew: true, Keeper: true,
			Lease: watchdogTimeout, Renewal: watchdogTimeout, Client: clients[0].ID(), Verb: verbAcquire, Hears: true,
		}
		t.Asked = now()
		hold, err := lock.Acquire(ctx)
		t.Answered = now()
		<-turns
		if err != nil {
			t.Answer, t.Class, t.Err = failed, t.class(err), err.Error()
			k.emit(t)
			pause(ctx, 20*time.Millisecond) // Redis may refuse again at once
			continue
		}
		t.Answer, t.First, t.Last = got, t.Answered, t.Answered
		k.lengthen(&t, lock, hold)
		k.emit(t)
		select {
		case <-hold.Done():
		case <-hold.Context().Done(): // also if the client shuts down
		case <-ctx.Done():
		}
		switch err := hold.Err(); {
		case errors.Is(err, rlock.ErrLost):
			t.Lost, t.Err = now(), err.Error()
		case err == nil:
			t.notice(hold)
			t.believe(hold)
		}
		t.unlock(context.Background(), hold)
		k.emit(t)
	}
}

// lengthen makes some locks of a process that is never killed last an hour. That must not delay the notice of a loss. It does
// so on a single server only: a failover may lose an unlock, and such a lock would then stay in Redis for the hour.
func (k *keeper) lengthen(t *Turn, lock handles.Any, hold *rlock.Hold) {
	if !k.Lasting || k.Place.Topology != topologySingle || k.number%8 >= 4 || k.kind == kindRead {
		return
	}
	if k.number%16 >= 8 {
		if t.called(now(), hold.Extend(context.Background(), time.Hour)) == "" {
			t.Extends++
		}
		return
	}
	inner, err := lock.TryAcquire(hold.Context(), rlock.Lease(time.Hour))
	if err != nil {
		t.class(err)
		return
	}
	if err := inner.Unlock(context.Background()); errors.Is(err, rlock.ErrNotHeld) && !errors.Is(err, rlock.ErrLost) {
		t.wrong("the unlock of a long re-entry returned %v", err)
	}
}
