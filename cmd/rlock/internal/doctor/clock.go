package doctor

import (
	"context"
	"time"
)

// offset is by how much a server's clock is ahead of this machine's.
type offset struct {
	node  *node
	ahead time.Duration
	doubt time.Duration // at most so far from the truth
}

// samples is how often a clock is read. The quickest reading is the least uncertain one.
const samples = 5

// read compares a server's clock with this machine's. The server read it between the beginning and the end of the call, so the middle is
// off by half of the call at most.
func (n *node) read(ctx context.Context) (best offset, err error) {
	for i := range samples {
		start := time.Now()
		server, err := n.rdb.Time(ctx).Result()
		took := time.Since(start)
		if err != nil {
			return offset{}, err
		}
		if doubt := took / 2; i == 0 || doubt < best.doubt {
			best = offset{node: n, ahead: server.Sub(start.Add(doubt)), doubt: doubt}
		}
	}
	return best, nil
}

// tolerable is the difference about which nothing is said. Failovers were measured to take two seconds or longer. So after one, a clock
// that is behind by less than that still gives greater tokens, even if the counters were lost, and one that is ahead by a second ends
// leases a second early.
const tolerable = time.Second

// clocks compares the clocks of the servers with one another, which rlock depends on after a failover, and with this machine's, which
// Redisson's clients depend on if theirs are like it.
//
// A hold is renewed when two thirds of its lease are left. A new master that is ahead by a third leaves another third for the failover
// itself, and beyond that, locks are lost in ordinary failovers. Redisson takes permits back too early from two thirds of a lease on. The
// warning comes at half of that, because a clock that nothing corrects goes on.
func clocks(ctx context.Context, d *deployment) (all []Finding) {
	var read []offset
	third := d.opts.Lease / 3
	for _, n := range d.nodes {
		o, err := n.read(ctx)
		if err != nil {
			all = append(all, found(n, Unknown, "The clock: %s.", why(err)))
			continue
		}
		read = append(read, o)
		ahead, word := o.ahead, "ahead of"
		if ahead < 0 {
			ahead, word = -ahead, "behind"
		}
		switch certain := ahead - o.doubt; {
		case certain >= third:
			all = append(all, found(n, Warning,
				"The server's clock is %v %s this machine's: Redisson, which judges leases of permits by its own clock, takes them back too early, or too late. Run NTP on both.",
				ahead.Round(time.Second), word).at(redissonPage))
		case certain >= tolerable:
			all = append(all, found(n, Note,
				"The server's clock is %v %s this machine's. rlock judges by the servers' clocks alone, but one of the two is wrong. Run NTP on both.",
				ahead.Round(time.Second), word).at(redissonPage))
		}
	}
	return append(all, apart(read, third)...)
}

// apart reports the two servers whose clocks surely differ most.
func apart(read []offset, third time.Duration) []Finding {
	var first, last offset
	var most time.Duration
	for _, a := range read {
		for _, b := range read {
			if certain := a.ahead - b.ahead - a.doubt - b.doubt; certain > most {
				most, first, last = certain, a, b
			}
		}
	}
	if most < tolerable {
		return nil
	}
	level := Warning
	if most >= third {
		level = Problem
	}
	return []Finding{found(nil, level,
		"The clock of %s is %v ahead of that of %s: a failover from one to the other ends leases early or late by so much, and tokens may go back. Run NTP on all servers, and let it slew.",
		first.node.addr, (first.ahead - last.ahead).Round(time.Second), last.node.addr)}
}
