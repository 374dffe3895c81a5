package scene

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/lua"
	"github.com/go-rlock/rlock/internal/testkit/promises"
	"github.com/go-rlock/rlock/internal/testkit/simredis"
	"github.com/go-rlock/rlock/internal/wire"
)

// waitersEnd is above the score of each waiter.
var waitersEnd = strconv.FormatFloat(lua.WaitersEnd, 'f', 0, 64)

// lineOf returns the key of the line in which the writers of a lock stand.
func lineOf(t *target) string {
	key, _ := wire.NewNames(wire.Write, t.name, "").LineKeys[1].(string)
	return key
}

// standing returns since when each process has had a writer in the line of a lock whose readers yield, as a reader finds when it gets the
// lock. The run must not be locked.
func (w *worker) standing(h *holder) map[string]time.Time {
	if h.of.kind != kindYieldingRW || !h.reads {
		return nil
	}
	since := make(map[string]time.Time)
	w.home(h.of.name).With(func(s *simredis.Server) {
		now := s.Clock()
		line, _ := s.Do("ZRANGEBYSCORE", lineOf(h.of), "0", waitersEnd, "WITHSCORES").([]any)
		for i := 0; i+1 < len(line); i += 2 {
			member, _ := line[i].(string)
			text, _ := line[i+1].(string)
			score, _ := strconv.ParseFloat(text, 64)
			client, _, _ := strings.Cut(member, ":")
			since[client] = time.Now().Add(time.UnixMicro(int64(score)).Sub(now))
		}
	})
	return since
}

// yields checks that a reader did not pass a writer in the line, which is alive and has subscribed by now. The run must be locked.
func (r *run) yields(h *holder, stand map[string]time.Time) {
	if len(stand) == 0 || r.Unsafe || r.faulty() || !h.asked.After(r.disturbed) || time.Now().Before(r.disturbed) {
		return
	}
	if slices.ContainsFunc(h.of.inside, func(o *holder) bool { return !o.reads }) {
		return
	}
	if r.Topology == topologyCluster {
		return // where a process does without the line until it knows how channels work
	}
	for _, o := range h.of.waiting {
		since, stands := stand[o.p.clients[0].ID()]
		if stands && !o.reads && o.p.healthy() && !o.troubled {
			waits := promises.Owner{Who: o.p, Asked: r.moment(since)}
			r.checks().Yields(h.of.name, r.believes(h.of, h), waits, r.moment(h.of.wrote), 300*time.Millisecond+10*r.Faults.Latency)
		}
	}
}

// readable reports whether others read a lock whose readers yield, and no writer waits, so that each reader may join them.
func (r *run) readable(t *target) bool {
	if t.kind != kindYieldingRW {
		return false
	}
	var mode, waits any
	r.home(t.name).With(func(s *simredis.Server) {
		mode, waits = s.Do("HGET", t.name, lua.ModeField), s.Do("ZCOUNT", lineOf(t), "0", waitersEnd)
	})
	return mode == lua.ReadMode && waits == int64(0)
}

// writes notes that a writer leaves a lock, or gives up: then it may have had the lock, and releases it in the background. The run must be locked.
func (r *run) writes(t *target, reads bool) {
	if !reads {
		t.wrote = time.Now().Add(300*time.Millisecond + 10*r.Faults.Latency)
	}
}
