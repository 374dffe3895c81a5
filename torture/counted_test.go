package torture

import (
	"testing"
	"time"
)

// TestCheckersOfCountsBite does what [TestCheckersBite] does for what counts.
func TestCheckersOfCountsBite(t *testing.T) {
	safe := Scene{Safe: true, WakeUp: time.Second}
	some := func(n int, t *Turn) *Turn {
		t.Permits = n
		return t
	}
	plain := func(id int64, n int) *Turn { return some(n, use(id, kindPlain, "sem-plain", 1, 2, 10)) }
	down := func(id, left int64) *Turn {
		return use(id, kindLatch, "latch-1", 1, 2, 10).with(func(t *Turn) { t.Counted, t.Left = true, left })
	}
	dead := []Event{{From: ms(5), To: ms(6), Site: "site1", Killed: true}}
	late := plain(1, 7).with(func(t *Turn) { t.Unlock, t.Unlocked = "", 0 })
	for _, c := range []struct {
		promise    string
		good, evil History
	}{
		{
			"permits:",
			History{Scene: safe, Turns: []*Turn{
				some(2, use(1, kindSemaphore, "sem0", 1, 2, 10)), some(1, use(2, kindSemaphore, "sem0", 1, 3, 10)),
				some(2, use(3, kindSemaphore, "sem0", 1, 11, 20)),
			}},
			History{Scene: safe, Turns: []*Turn{
				some(2, use(1, kindSemaphore, "sem0", 1, 2, 10)), some(2, use(2, kindSemaphore, "sem0", 1, 9, 20)),
			}},
		},
		{
			"lost wake-up: a permit of sem1 was free for",
			History{Scene: safe, Turns: []*Turn{
				some(1, use(1, kindSemaphore, single, 1, 2, 2000)), some(1, use(2, kindSemaphore, single, 3, 2010, 2020)),
			}},
			History{Scene: safe, Turns: []*Turn{
				some(1, use(1, kindSemaphore, single, 1, 2, 10)), some(1, use(2, kindSemaphore, single, 3, 2010, 2020)),
			}},
		},
		{
			"left: sem-plain has 190 at the end instead of 193 to 200",
			History{Scene: safe, Turns: []*Turn{late, plain(2, 3)}, Events: dead, Rest: map[string]int64{"sem-plain": 193}},
			History{Scene: safe, Turns: []*Turn{late, plain(2, 3)}, Events: dead, Rest: map[string]int64{"sem-plain": 190}},
		},
		{
			"left: sem-plain has 201 at the end instead of 200 to 200",
			History{Scene: safe, Turns: []*Turn{plain(2, 3)}, Rest: map[string]int64{"sem-plain": 200}},
			History{Scene: safe, Turns: []*Turn{plain(2, 3)}, Rest: map[string]int64{"sem-plain": 201}},
		},
		{
			"left: latch-1 has 997 at the end instead of 998 to 998",
			History{Scene: safe, Turns: []*Turn{down(1, 999), down(2, 998)}, Rest: map[string]int64{"latch-1": 998}},
			History{Scene: safe, Turns: []*Turn{down(1, 999), down(2, 998)}, Rest: map[string]int64{"latch-1": 997}},
		},
		{
			"latch:",
			History{Turns: []*Turn{down(1, 999).with(func(t *Turn) { t.Passed = true })}, Rest: map[string]int64{"latch-1": 999}},
			History{Scene: safe, Turns: []*Turn{down(1, 999).with(func(t *Turn) { t.Passed = true })}, Rest: map[string]int64{"latch-1": 999}},
		},
		{
			"latch:",
			History{Scene: safe, Turns: []*Turn{down(1, 999), down(2, 998)}},
			History{Scene: safe, Turns: []*Turn{down(1, 999), down(2, 999)}},
		},
	} {
		breaks(t, c.promise, c.good, c.evil)
	}
}
