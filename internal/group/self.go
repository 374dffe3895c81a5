package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/notice"
	"github.com/go-rlock/rlock/internal/table"
)

// A group waits for itself if two of its members are one lock in Redis, and do not know it. Within one client that is known before
// anything is sent. Two clients may be of one server, or of two: then only the holder that Redis has tells.

// apart returns an error if two locks of one client have one name and belong to different families. Nil means that there are none.
func apart(locks []*client.Lock) error {
	type place struct {
		table *table.Table
		name  string
	}
	keys := make(map[place]table.Key)
	for _, l := range locks {
		key := l.ID().Key
		at := place{key.Table, key.Name}
		if other, ok := keys[at]; ok && other != key {
			return fmt.Errorf("%w: locks of different families have the name %s, and would wait for each other",
				fault.ErrInvalidOption, fault.Quote(l.Name()))
		}
		keys[at] = key
	}
	return nil
}

// suspect looks, before the members of a round are released, whether Redis has one of them as the holder of a member that was
// refused. It asks once the wait is long, and then each time that it has become twice as long, so a wait costs nothing else.
func (r *request) suspect(ctx context.Context, a *acquisition, refused func(i int) bool) {
	waited := time.Since(r.start)
	if r.accused || waited < max(min(time.Second, r.stays().lease/3), 2*r.looked) {
		return
	}
	r.looked = waited
	moment, cancel := context.WithTimeout(client.Calm(ctx), minTimeout)
	defer cancel()
	has := func(l *client.Lock) bool {
		return slices.ContainsFunc(a.Fields(), func(f string) bool { return l.HeldBy(moment, f) })
	}
	for i, m := range r.group.members {
		if refused(i) && slices.ContainsFunc(m.Locks(), has) {
			r.accused = true
			clientOf(r.group).Log(r.group.entry(notice.SelfDeadlock, notice.LogItself, nil))
			return
		}
	}
}

// wasRefused reports whether a member of a red lock was refused in the round that is over.
func (a *acquisition) wasRefused(i int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return errors.Is(a.members[i].err, fault.ErrRefused)
}

// Fields returns the holders in Redis of the members that are held.
func (a *acquisition) Fields() (all []string) {
	for _, h := range a.held() {
		if of, ok := h.(interface{ Fields() []string }); ok {
			all = append(all, of.Fields()...)
		}
	}
	return all
}
