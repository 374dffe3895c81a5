package turns

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/testkit/simredis"
)

// watch looks at the locks all the time.
func (r *run) watch() {
	free, alone, last := make([]time.Time, r.Names), make([]time.Time, r.Names), make([]string, r.Names)
	for !r.ended() {
		r.rest(50 * time.Millisecond)
		for i := range r.Names {
			now := time.Now()
			var fields []string
			r.server.With(func(s *simredis.Server) {
				if r.Permits > 0 {
					fields = r.takenPermits(s, i)
				} else if all, ok := s.Do("HKEYS", name(i)).([]any); ok {
					for _, f := range all {
						fields = append(fields, fmt.Sprint(f))
					}
				}
			})
			r.mu.Lock()
			if holder := strings.Join(fields, " "); holder != last[i] {
				last[i], alone[i] = holder, now
			}
			r.looks(i, now, fields, &free[i], &alone[i])
			r.mu.Unlock()
		}
	}
}

// takenPermits returns who has permits whose leases run, or nobody if as many are free as anybody wants.
func (r *run) takenPermits(s *simredis.Server, i int) (fields []string) {
	free, _ := strconv.Atoi(fmt.Sprint(s.Do("GET", name(i))))
	if all, ok := s.Do("ZRANGEBYSCORE", "{"+name(i)+"}:timeout", fmt.Sprint(time.Now().UnixMilli()), "+inf").([]any); ok && free < r.Wants {
		for _, id := range all {
			fields = append(fields, fmt.Sprintf("%x", id))
		}
	}
	return fields
}

// looks judges what a look at a lock shows.
func (r *run) looks(i int, now time.Time, fields []string, free, alone *time.Time) {
	since := now // since when somebody has waited
	for _, t := range r.waiting[name(i)] {
		if t.Before(since) {
			since = t
		}
	}
	if len(fields) > 0 || free.IsZero() {
		*free = now
	}
	for _, t := range []time.Time{*free, r.taken[name(i)]} {
		if since.Before(t) {
			since = t
		}
	}
	idle := now.Sub(since)
	r.res.Idle = max(r.res.Idle, idle)
	if most := r.bound(); idle > most && idle < most+100*time.Millisecond {
		r.brokenf("idle: %s has been free for %v while somebody waits", name(i), idle)
	}
	ours := len(fields) > 0 && (r.Permits > 0 || fields[0][14] == '8') // a peer whose reply was lost forgets what it has
	if len(r.holders[name(i)]) > 0 || !ours {
		*alone = now
	}
	most := term + commandTimeout
	if r.Kills {
		most = watchdog + time.Second
	}
	if d := now.Sub(*alone); d > most && d < most+100*time.Millisecond {
		r.brokenf("orphan: %s has %s, whom nobody knows, for %v", name(i), strings.Join(fields, " "), d)
	}
}

// bound is how long a lock may stay free while somebody waits for it.
func (r *run) bound() time.Duration {
	if r.calm() {
		return 500 * time.Millisecond
	}
	return term + 3*commandTimeout
}
