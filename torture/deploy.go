package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-rlock/rlock"
)

// The holders that a shutdown meets in Do, and how many leases they need at most to wind up.
const (
	deployHolders = 6
	windUpLeases  = 4
)

// shutdown ends the client of a site as a deployment does, and the site goes on with a new one. Meanwhile holders are in Do,
// and a process next door waits for their locks. Shutdown gives up after patience.
func (a *Arena) shutdown(r *rand.Rand, e *Event, patience time.Duration) {
	i := r.IntN(len(a.sites))
	site, rival := a.sites[i], a.sites[(i+1)%len(a.sites)]
	old := site.all()
	next, err := site.renew()
	if err != nil {
		a.collector.foundf("no new client: %v", err)
		return
	}
	var wg, held sync.WaitGroup
	held.Add(deployHolders) // all at once: a rival may wait before the next holder starts
	for n := range deployHolders {
		name := fmt.Sprintf("deploy-%d-%d", now(), n)
		d := deployed{running: site, client: old[0], name: name, lease: 2 * shortLease * time.Duration(1+n%2), random: r.Uint64(), held: held.Done}
		wg.Go(d.hold)
		wg.Go(func() { held.Wait(); rival.want(name) })
	}
	held.Wait()
	wait(20 * time.Millisecond) // the rivals wait
	a.collector.hear(site.Name, message{Client: next[0].ID()})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e.Client, e.What, e.From = old[0].ID(), fmt.Sprintf("of %s within %v", site.Name, patience), now()
	site.clients.Store(&next)
	err = old[0].Shutdown(ctx)
	e.To = now()
	switch {
	case err == nil:
		e.Left = a.fieldsOf(old[0].ID())
	case ctx.Err() == nil || !errors.Is(err, ctx.Err()):
		a.collector.foundf("shutdown: Shutdown returned %v", err)
	}
	if err != nil {
		e.Err = err.Error()
	}
	wg.Wait()
	if s := old[0].Stats(); s.Held != 0 || s.Waiting != 0 {
		a.collector.foundf("gauges: after a shutdown %s has %+v", old[0].ID(), s)
	}
}

// fieldsOf returns the keys and fields of a client in Redis, without tombstones.
func (a *Arena) fieldsOf(id string) (left []string) {
	ctx := context.Background()
	pause(ctx, 50*time.Millisecond) // a lost hold ends a little before its lease in Redis
	for _, node := range a.masters() {
		fields, _ := a.admins[node].Eval(ctx, `
			local left = {}
			for _, key in ipairs(redis.call('KEYS', '*')) do
				local type, all = redis.call('TYPE', key).ok, {}
				if type == 'hash' then all = redis.call('HKEYS', key)
				elseif type == 'zset' then all = redis.call('ZRANGE', key, 0, -1)
				elseif type == 'list' then all = redis.call('LRANGE', key, 0, -1) end
				for _, field in ipairs(all) do
					if string.find(field, ARGV[1], 1, true) then left[#left + 1] = key .. ' ' .. field end
				end
			end
			return left`, nil, id).StringSlice()
		left = append(left, fields...)
	}
	return left
}

// deployed is a holder that a shutdown meets.
type deployed struct {
	*running

	client *rlock.Client
	name   string
	lease  time.Duration
	random uint64
	held   func()
}

// hold holds a lock in Do until the client shuts down, and then for as long as it needs to wind up. It must keep the lock.
func (d *deployed) hold() {
	t := Turn{
		ID: d.ids.Add(1), Site: d.Name, Worker: -2, Kind: kindLock, Names: []string{d.name}, Renew: true, Lease: d.lease, Renewal: d.lease,
		Client: d.client.ID(), Verb: verbDo, Hears: true, Asked: now(),
	}
	d.emit(t)
	started := false
	lock := d.client.NewLock(d.name)
	err := lock.Do(context.Background(), func(ctx context.Context) error {
		started = true
		hold, _ := rlock.HoldFrom(ctx, lock)
		t.Answered, t.Answer = now(), got
		t.believe(hold)
		d.emit(t)
		d.held()
		end := Moment(0) // of the section
		for until := now().Add(10 * time.Second); now() < until && (end == 0 || now() < end); {
			pause(context.Background(), 4*time.Millisecond)
			if t.notice(hold); t.Told != 0 && end == 0 {
				end = t.Told.Add(time.Duration(d.random % uint64(windUpLeases*d.lease)))
			}
			if !t.believe(hold) {
				break
			}
		}
		if errors.Is(hold.Err(), rlock.ErrLost) {
			t.Lost = now()
		}
		t.unlocking(hold)
		return nil
	}, rlock.RenewedLease(d.lease))
	if !started {
		d.held()
		t.Answered, t.Answer, t.Class, t.Err = now(), failed, t.class(err), err.Error()
		d.emit(t)
		return
	}
	t.Unlocked, t.Unlock, t.ByDo = now(), got, true
	if err != nil {
		t.Unlock, t.Err = lost, err.Error()
	}
	d.emit(t)
}

// want waits for a lock, and unlocks it.
func (r *running) want(name string) {
	clients := r.all()
	t := Turn{
		ID: r.ids.Add(1), Site: r.Name, Worker: -2, Kind: kindLock, Names: []string{name}, Renew: true, Lease: watchdogTimeout,
		Renewal: watchdogTimeout, Client: clients[0].ID(), Verb: verbAcquire, Asked: now(),
	}
	r.emit(t)
	hold, err := clients[0].NewLock(name).Acquire(context.Background())
	t.Answered = now()
	if err != nil {
		t.Answer, t.Class, t.Err = failed, t.class(err), err.Error()
		r.emit(t)
		return
	}
	t.Answer = got
	t.believe(hold)
	r.emit(t)
	t.unlock(context.Background(), hold)
	r.emit(t)
}

// shutdowns checks that a client that shuts down tells its holders, lets them keep their locks until they unlock, and
// acquires nothing more.
func (c *checker) shutdowns() {
	for _, e := range c.Events {
		if e.Client != "" {
			c.Figures.Shutdowns++
			c.shutdown(e)
		}
	}
	for _, t := range c.Turns {
		if t.Class == closing && !t.stoppedBy(c.Events) {
			c.brokenf("shutdown: a client that was not shut down said so: %v", t)
		}
	}
}

// stoppedBy reports whether a client was shut down before a turn had its answer.
func (t *Turn) stoppedBy(events []Event) bool {
	for _, e := range events {
		if e.Client == t.Client && e.From <= t.Answered {
			return true
		}
	}
	return false
}

func (c *checker) shutdown(e Event) {
	soon := 200*time.Millisecond + c.noise
	ended := e.From // of the last hold
	var given []string
	for _, t := range c.Turns {
		if t.Client != e.Client {
			continue
		}
		switch waited := t.Asked < e.From && t.Answered > e.From; {
		case t.Asked > e.From.Add(soon) && t.Answer == got:
			c.brokenf("shutdown: a client acquired a lock after its shutdown: %v", t)
		case waited && t.Answered > e.From.Add(soon) && c.trouble(e.From, t.Answered) == 0:
			c.brokenf("shutdown: a wait went on for %v after the shutdown: %v", t.Answered.Sub(e.From), t)
		}
		if t.Answer != got || t.Answered > e.To || t.Kind == kindPlain { // of which nothing is held
			continue
		}
		if t.Hears && t.First != 0 && t.First < e.From && t.Last > e.From.Add(soon) && (t.Told == 0 || t.Told > e.From.Add(soon)) {
			c.brokenf("shutdown: a holder was not told of the shutdown: %v", t)
		}
		over := t.Unlocked
		switch {
		case t.Unlock == left:
			over = max(t.Unlocked, t.Answered.Add(t.Lease), t.Extended)
			given = append(given, t.Names...)
		case e.Err == "" && t.Lost == 0 && t.Unlocking > e.To:
			c.brokenf("shutdown: Shutdown returned before an unlock: %v", t)
		}
		ended = max(ended, min(over, e.To))
	}
	if e.Err == "" && e.To > ended.Add(soon) && c.trouble(ended.Add(-time.Second), e.To) == 0 {
		c.brokenf("shutdown: Shutdown returned %v after the last unlock, at %d", e.To.Sub(ended), e.To)
	}
	for _, field := range e.Left {
		if !within(field, given) {
			c.brokenf("shutdown: after a shutdown, Redis had %s", field)
		}
	}
}
