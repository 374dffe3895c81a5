package interop_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
)

// turnLog is a stream in Redis in which each owner of a lock notes the start and the end of its turns, inside the lock. Its
// order shows that no two were inside at once, and its times, which are Redis's, how long everybody waited.
type turnLog struct {
	rdb redis.UniversalClient
	key string
}

func newTurnLog(rdb redis.UniversalClient) turnLog { return turnLog{rdb, newName()} }

// note adds the start ("in") or the end ("out") of an owner's turn. Owners that read have a name with "reads".
func (l turnLog) note(who, what string) error {
	return l.rdb.XAdd(context.Background(), &redis.XAddArgs{Stream: l.key, Values: []string{who, what}}).Err()
}

// turn is one turn of an owner.
type turn struct {
	who     string
	in, out time.Time
}

func (tn turn) reads() bool { return strings.Contains(tn.who, "reads") }

// turns returns all turns, by their start. It requires that nobody was inside together with an exclusive owner.
func (l turnLog) turns(tb testing.TB) []turn {
	tb.Helper()
	notes, err := l.rdb.XRange(context.Background(), l.key, "-", "+").Result()
	require.NoError(tb, err)
	var all []turn
	inside := map[string]int{} // the index of the turn
	for _, note := range notes {
		text, _, _ := strings.Cut(note.ID, "-")
		ms, err := strconv.ParseInt(text, 10, 64)
		require.NoError(tb, err)
		for who, what := range note.Values {
			if what == "out" {
				require.Contains(tb, inside, who, "%s ends at %s", who, note.ID)
				all[inside[who]].out = time.UnixMilli(ms)
				delete(inside, who)
				continue
			}
			this := turn{who: who, in: time.UnixMilli(ms)}
			for _, i := range inside {
				require.True(tb, this.reads() && all[i].reads(), "%s starts at %s while %s is inside", who, note.ID, all[i].who)
			}
			inside[who] = len(all)
			all = append(all, this)
		}
	}
	require.Empty(tb, inside, "every turn has ended")
	return all
}

// tally sums up the turns of a fleet.
type tally struct {
	turns   map[string]int           // of each owner
	waited  map[string]time.Duration // the longest time between two turns of an owner
	gap     time.Duration            // the longest time in which nobody was inside
	gapFrom time.Time
	heirs   [2]string // who left, and who came, at this gap
}

func tallyOf(all []turn) tally {
	sum := tally{turns: map[string]int{}, waited: map[string]time.Duration{}}
	left := map[string]time.Time{}
	for i, this := range all {
		if i > 0 {
			// Readers overlap, so the last one to leave may not be the last one that came.
			last := slices.MaxFunc(all[:i][max(0, i-20):], func(a, b turn) int { return a.out.Compare(b.out) })
			if gap := this.in.Sub(last.out); gap > sum.gap {
				sum.gap, sum.gapFrom, sum.heirs = gap, last.out, [2]string{last.who, this.who}
			}
		}
		if out, ok := left[this.who]; ok {
			sum.waited[this.who] = max(sum.waited[this.who], this.in.Sub(out))
		}
		left[this.who] = this.out
		sum.turns[this.who]++
	}
	return sum
}

// of returns the turns of the owners with a prefix: their sum and the least.
func (s tally) of(prefix string) (sum, least int) {
	least = -1
	for who, n := range s.turns {
		if strings.HasPrefix(who, prefix) {
			sum += n
			if least < 0 || n < least {
				least = n
			}
		}
	}
	return sum, max(least, 0)
}

// longest returns the longest wait of the owners with a prefix.
func (s tally) longest(prefix string) (longest time.Duration) {
	for who, d := range s.waited {
		if strings.HasPrefix(who, prefix) {
			longest = max(longest, d)
		}
	}
	return longest
}

// shift is how an owner takes turns in a loop.
type shift struct {
	kind, name string
	log        turnLog
	me         string
	hold       time.Duration
	length     time.Duration
}

// inGo takes turns until the shift is over.
func (s shift) inGo(lock *rlock.Lock) error {
	ctx := rlock.WithOwner(context.Background())
	for end := time.Now().Add(s.length); time.Now().Before(end); {
		if err := lock.Lock(ctx); err != nil {
			return err
		}
		err := s.log.note(s.me, "in")
		time.Sleep(s.hold)
		if err == nil {
			err = s.log.note(s.me, "out")
		}
		if unlocked := lock.Unlock(ctx); err == nil {
			err = unlocked
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Turns starts the shift in Java. The result is the number of turns.
func (c *redissonClient) Turns(s shift) <-chan result[int64] {
	return ask[int64](c.jvm, request{
		Op: "turns", Client: c.name, Kind: s.kind, Names: []string{s.name}, Counter: s.log.key, Me: s.me,
		Hold: s.hold.Milliseconds(), MS: s.length.Milliseconds(),
	})
}
