package torture

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ms returns a moment, n milliseconds from the start of a history.
func ms(n int64) Moment { return Moment(n * int64(time.Millisecond)) }

// use returns a turn without errors: asked, answered and unlocked at these moments, in milliseconds.
func use(id int64, kind, name string, asked, answered, unlocked int64) *Turn {
	return &Turn{
		ID: id, Site: "site1", Kind: kind, Names: []string{name}, Lease: watchdogTimeout, Renew: true, Asked: ms(asked), Answered: ms(answered),
		Answer: got, First: ms(answered), Last: ms(unlocked - 1), Unlocking: ms(unlocked - 1), Unlocked: ms(unlocked), Unlock: got,
		Deadline: ms(answered).Add(watchdogTimeout),
	}
}

// passing returns a history in which a writer stands in the line from 10 to 100 ms, and a reader that asked at a moment reads from 80 ms on, besides
// what another turn did.
func passing(asked int64, other *Turn) History {
	return History{
		Scene: Scene{Safe: true},
		Turns: []*Turn{other, use(2, kindYieldingRead, yielded, asked, 80, 90), use(3, kindWrite, yielded, 5, 110, 120)},
		Lines: []lined{
			{From: ms(9), To: ms(10), Writers: []string{"client:1:write|3000"}}, {From: ms(100), To: ms(101), Writers: []string{"client:1:write|3000"}},
		},
	}
}

// stood returns a history in which the machine stood still besides.
func stood(h History, from, to int64) History {
	h.Stood = append(h.Stood, stall{ms(from), ms(to)})
	return h
}

// waited returns turns of which one waits until 2 s, in vain, and another is refused at a moment. Nobody else has the lock then.
func waited(at int64) []*Turn {
	return []*Turn{
		use(1, kindLock, "a", 1, 2, 10),
		{ID: 2, Kind: kindLock, Names: []string{"a"}, Asked: ms(5), Answered: ms(2000), Answer: refused, Wait: 1995 * time.Millisecond},
		{ID: 3, Kind: kindLock, Names: []string{"a"}, Asked: ms(at), Answered: ms(at + 1), Answer: refused, Try: true},
	}
}

// with changes the turn and returns it.
func (t *Turn) with(change func(*Turn)) *Turn {
	change(t)
	return t
}

// TestCheckersBite gives each checker one history that keeps its promise, and one that breaks it.
func TestCheckersBite(t *testing.T) {
	safe := Scene{Safe: true, Ordered: true, WakeUp: time.Second}
	keeper := func(lost int64) *Turn {
		return use(1, kindLock, "keep", 1, 2, 9000).with(func(t *Turn) { t.Keeper, t.Lost = true, ms(lost) })
	}
	later := []*Turn{use(4, kindLock, "a", 6, 2500, 2600), use(5, kindLock, "a", 1600, 1700, 1800)}
	for _, c := range []struct {
		promise    string
		good, evil History
	}{
		{
			"exclusion:",
			History{Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10), use(2, kindLock, "a", 3, 11, 20)}},
			History{Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10), use(2, kindLock, "a", 3, 8, 20)}},
		},
		{
			"exclusion:",
			History{Scene: safe, Turns: []*Turn{use(1, kindRead, "rw", 1, 2, 10), use(2, kindRead, "rw", 3, 8, 20)}},
			History{Scene: safe, Turns: []*Turn{use(1, kindRead, "rw", 1, 2, 10), use(2, kindWrite, "rw", 3, 8, 20)}},
		},
		{
			"token:",
			History{Scene: safe, Turns: []*Turn{
				use(1, kindFenced, "fenced0", 1, 2, 10).with(func(t *Turn) { t.Token = 7 }),
				use(2, kindFenced, "fenced0", 11, 12, 20).with(func(t *Turn) { t.Token = 8 }),
			}},
			History{Scene: safe, Turns: []*Turn{
				use(1, kindFenced, "fenced0", 1, 2, 10).with(func(t *Turn) { t.Token = 7 }),
				use(2, kindFenced, "fenced0", 11, 12, 20).with(func(t *Turn) { t.Token = 7 }),
			}},
		},
		{
			"token:", // an adopted hold has its token since the adoption
			History{Turns: []*Turn{
				use(1, kindFenced, "fenced0", 1, 2, 30).with(func(t *Turn) { t.Token, t.Adopted = 8, ms(20) }),
				use(2, kindFenced, "fenced0", 11, 12, 20).with(func(t *Turn) { t.Token = 7 }),
			}},
			History{Turns: []*Turn{
				use(1, kindFenced, "fenced0", 1, 2, 30).with(func(t *Turn) { t.Token, t.Adopted = 8, ms(10) }),
				use(2, kindFenced, "fenced0", 11, 12, 20).with(func(t *Turn) { t.Token = 7 }),
			}},
		},
		{
			"token:",
			History{Scene: safe, Turns: []*Turn{use(1, kindRead, "rw-fenced", 1, 2, 10)}},
			History{Scene: safe, Turns: []*Turn{use(1, kindRead, "rw-fenced", 1, 2, 10).with(func(t *Turn) { t.Token = 7 })}},
		},
		{
			"token:",
			History{Scene: safe, Turns: []*Turn{
				use(1, kindFenced, "fenced0", 1, 2, 10).with(func(t *Turn) { t.Token = 7 }),
				use(2, kindFenced, "fenced0", 1, 12, 20).with(func(t *Turn) { t.Token = 8 }),
			}},
			History{Scene: safe, Turns: []*Turn{
				use(1, kindFenced, "fenced0", 1, 2, 10).with(func(t *Turn) { t.Token = 7 }),
				use(2, kindFenced, "fenced0", 1, 12, 20).with(func(t *Turn) { t.Token = 6 }),
			}},
		},
		{
			"token:",
			History{Turns: []*Turn{
				use(1, kindFenced, "fenced0", 1, 12, 20).with(func(t *Turn) { t.Token = 7 }),
				use(2, kindFenced, "fenced0", 1, 13, 20).with(func(t *Turn) { t.Token = 6 }),
			}},
			History{Turns: []*Turn{
				use(1, kindFenced, "fenced0", 1, 12, 20).with(func(t *Turn) { t.Token = 7 }),
				use(2, kindFenced, "fenced0", 1, 13, 20).with(func(t *Turn) { t.Token = 7 }),
			}},
		},
		{
			"linearizability:", // an unlock that failed may nevertheless have freed the lock
			History{Scene: safe, Turns: []*Turn{
				use(1, kindLock, "a", 1, 2, 10).with(func(t *Turn) { t.Unlock = failed }), use(2, kindLock, "a", 11, 12, 20),
			}},
			History{Scene: safe, Turns: []*Turn{
				use(1, kindLock, "a", 1, 2, 10).with(func(t *Turn) { t.Unlock, t.Unlocking = left, 0 }), use(2, kindLock, "a", 11, 12, 20),
			}},
		},
		{
			"linearizability:", // a waiting reader queues behind writers
			History{Scene: safe, Turns: []*Turn{
				use(1, kindRead, "rw", 1, 2, 40),
				{ID: 2, Kind: kindRead, Names: []string{"rw"}, Asked: ms(9), Answered: ms(30), Answer: refused},
			}},
			History{Scene: safe, Turns: []*Turn{
				use(1, kindRead, "rw", 1, 2, 40),
				{ID: 2, Kind: kindRead, Names: []string{"rw"}, Asked: ms(9), Answered: ms(30), Answer: refused, Try: true},
			}},
		},
		{
			"linearizability:",
			History{Scene: safe, Turns: []*Turn{
				use(1, kindLock, "a", 1, 2, 10),
				{ID: 2, Kind: kindLock, Names: []string{"a"}, Asked: ms(9), Answered: ms(30), Answer: refused, Try: true},
			}},
			History{Scene: safe, Turns: []*Turn{
				use(1, kindLock, "a", 1, 2, 10),
				{ID: 2, Kind: kindLock, Names: []string{"a"}, Asked: ms(11), Answered: ms(30), Answer: refused, Try: true},
			}},
		},
		{
			"linearizability:", // when its wait was almost over, another one may have been given the lock, which it gave back
			History{Scene: safe, Turns: waited(1950)},
			History{Scene: safe, Turns: waited(1500)},
		},
		{
			"linearizability:", // the same, and it got the lock later
			History{Scene: safe, Events: []Event{{From: ms(1), To: ms(9)}}, Turns: append(later, waited(1500)[2])},
			History{Scene: safe, Turns: append(later, waited(1500)[2])},
		},
		{
			"linearizability:", // after trouble, the message that the lock was its own may have been lost
			History{Scene: safe, Events: []Event{{From: ms(1), To: ms(9)}}, Turns: waited(1500)},
			History{Scene: safe, Events: []Event{{From: ms(2010), To: ms(2020)}}, Turns: waited(1500)},
		},
		{
			"order:",
			History{Scene: safe, Turns: []*Turn{use(1, kindFair, "fair0", 1, 600, 610), use(2, kindFair, "fair0", 200, 400, 410)}},
			History{Scene: safe, Turns: []*Turn{use(1, kindFair, "fair0", 1, 600, 610), use(2, kindFair, "fair0", 400, 401, 410)}},
		},
		{
			"writer preference:", // a writer that leaves lets in who came before
			passing(30, use(1, kindWrite, yielded, 1, 2, 50)),
			passing(60, use(1, kindWrite, yielded, 1, 2, 50)),
		},
		{
			"writer preference:", // a reader waits for a writer that came before
			passing(8, use(1, kindYieldingRead, yielded, 1, 2, 90)),
			passing(60, use(1, kindYieldingRead, yielded, 1, 2, 90)),
		},
		{
			"writer preference:", // a writer that gives up may have been given the lock meanwhile, and leaves it then; one that asked once has not
			passing(40, &Turn{ID: 1, Kind: kindWrite, Names: []string{yielded}, Asked: ms(1), Answered: ms(50), Answer: refused}),
			passing(40, &Turn{ID: 1, Kind: kindWrite, Names: []string{yielded}, Asked: ms(1), Answered: ms(50), Answer: refused, Try: true}),
		},
		{
			"writer preference:", // the machine did not run the writer that gave up
			stood(passing(40, &Turn{ID: 1, Kind: kindWrite, Names: []string{yielded}, Asked: ms(1), Answered: ms(130), Answer: refused}), 85, 125),
			stood(passing(40, &Turn{ID: 1, Kind: kindWrite, Names: []string{yielded}, Asked: ms(1), Answered: ms(130), Answer: refused}), 40, 80),
		},
		{
			"false loss:",
			History{Scene: safe, Turns: []*Turn{keeper(0)}},
			History{Scene: safe, Turns: []*Turn{keeper(500)}},
		},
		{
			"false loss:",
			History{Scene: safe, Stood: []stall{{ms(100), ms(700)}, {ms(900), ms(1400)}}, Turns: []*Turn{keeper(2900)}},
			History{Scene: safe, Stood: []stall{{ms(100), ms(1000)}}, Turns: []*Turn{keeper(2900)}},
		},
		{
			"notice:",
			History{Stop: ms(9000), Events: []Event{{From: ms(100), Lost: "keep"}}, Turns: []*Turn{keeper(900)}},
			History{Stop: ms(9000), Events: []Event{{From: ms(100), Lost: "keep"}}, Turns: []*Turn{keeper(2900)}},
		},
		{
			"notice: the context",
			History{Turns: []*Turn{keeper(3020)}},
			History{Turns: []*Turn{keeper(3200)}},
		},
		{
			"unlock:",
			History{Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10)}},
			History{Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10).with(func(t *Turn) { t.Unlock = lost })}},
		},
		{
			"unlock:",
			History{Scene: safe, Events: []Event{{From: ms(1), To: ms(5)}}, Turns: []*Turn{
				use(1, kindLock, "a", 1, 2, 10).with(func(t *Turn) { t.Unlock = failed }),
			}},
			History{Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10).with(func(t *Turn) { t.Unlock = failed })}},
		},
		{
			"unlock:",
			History{Scene: safe, Stood: []stall{{ms(200), ms(701)}}, Turns: []*Turn{
				use(1, kindLock, "a", 1, 2, 1600).with(func(t *Turn) { t.Unlock, t.Unlocking = failed, ms(99) }),
			}},
			History{Scene: safe, Stood: []stall{{ms(200), ms(690)}}, Turns: []*Turn{
				use(1, kindLock, "a", 1, 2, 1600).with(func(t *Turn) { t.Unlock, t.Unlocking = failed, ms(99) }),
			}},
		},
		{
			"lost wake-up:",
			History{Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10), use(2, kindLock, "a", 3, 100, 200)}},
			History{Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10), use(2, kindLock, "a", 3, 1500, 1600)}},
		},
		{
			"lost wake-up:", // the unlock may return after the next owner has the lock
			History{Scene: safe, Turns: []*Turn{
				use(9, kindLock, "a", 1, 2, 4), use(1, kindLock, "a", 4, 5, 1900).with(func(t *Turn) { t.Unlocking = ms(1890) }), use(2, kindLock, "a", 3, 1899, 2000),
			}},
			History{Scene: safe, Turns: []*Turn{
				use(9, kindLock, "a", 1, 2, 4), use(1, kindLock, "a", 4, 5, 800), use(2, kindLock, "a", 3, 1899, 2000),
			}},
		},
		{
			"stray: for",
			History{Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10)}, Samples: []sample{
				{Name: "a", From: ms(5), To: ms(6), Held: true}, {Name: "a", From: ms(15), To: ms(16)},
			}},
			History{Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10)}, Samples: []sample{
				{Name: "a", From: ms(15), To: ms(16), Held: true}, {Name: "a", From: ms(500), To: ms(501), Held: true},
			}},
		},
		{
			"stray: for 501ms", // the machine ran nothing of its owner
			History{
				Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10)}, Clients: map[string][]string{"site1": {"x"}},
				Starved: map[string][]stall{"site1": {{ms(20), ms(300)}}}, Samples: []sample{
					{Name: "a", From: ms(15), To: ms(16), Held: true, Holder: "x"}, {Name: "a", From: ms(516), To: ms(517), Held: true, Holder: "x"},
				},
			},
			History{
				Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10)}, Clients: map[string][]string{"site1": {"x"}},
				Starved: map[string][]stall{"site2": {{ms(20), ms(300)}}}, Samples: []sample{
					{Name: "a", From: ms(15), To: ms(16), Held: true, Holder: "x"}, {Name: "a", From: ms(516), To: ms(517), Held: true, Holder: "x"},
				},
			},
		},
		{
			"stray: for 501ms", // a waiter is no excuse
			History{Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10), use(2, kindLock, "a", 3, 12, 2000)}, Samples: []sample{
				{Name: "a", From: ms(15), To: ms(16), Held: true, Holder: "y"}, {Name: "a", From: ms(516), To: ms(517), Held: true, Holder: "y"},
			}},
			History{Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10), use(2, kindLock, "a", 3, 1000, 2000)}, Samples: []sample{
				{Name: "a", From: ms(15), To: ms(16), Held: true, Holder: "x"}, {Name: "a", From: ms(516), To: ms(517), Held: true, Holder: "x"},
			}},
		},
		{
			"stray: for 501ms", // a Redis that forgot the release keeps the lock as long as its lease says
			History{
				Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10)}, Events: []Event{{From: ms(5), To: ms(15), What: n27Restore + " of"}},
				Samples: []sample{
					{Name: "a", From: ms(2915), To: ms(2916), Held: true, Holder: "x"}, {Name: "a", From: ms(3416), To: ms(3417), Held: true, Holder: "x"},
				},
			},
			History{
				Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10)}, Events: []Event{{From: ms(5), To: ms(15), What: n27Restore + " of"}},
				Samples: []sample{
					{Name: "a", From: ms(3915), To: ms(3916), Held: true, Holder: "x"}, {Name: "a", From: ms(4416), To: ms(4417), Held: true, Holder: "x"},
				},
			},
		},
		{
			"stray: for 501ms", // a lock that was free meanwhile was not kept
			History{Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10), use(2, kindLock, "a", 3, 1000, 2000)}, Samples: []sample{
				{Name: "a", From: ms(15), To: ms(16), Held: true, Holder: "x"},
				{Name: "a", From: ms(200), To: ms(201)},
				{Name: "a", From: ms(516), To: ms(517), Held: true, Holder: "x"},
			}},
			History{Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10), use(2, kindLock, "a", 3, 1000, 2000)}, Samples: []sample{
				{Name: "a", From: ms(15), To: ms(16), Held: true, Holder: "x"},
				{Name: "a", From: ms(200), To: ms(201), Held: true, Holder: "x"},
				{Name: "a", From: ms(516), To: ms(517), Held: true, Holder: "x"},
			}},
		},
		{
			"stray: for 701ms", // a multi lock that waits stands in the queue of one member with another one
			History{Scene: safe, Turns: []*Turn{use(1, kindMulti, "a", 1, 2, 10), use(2, kindMulti, "a", 3, 1000, 2000)}, Samples: []sample{
				{Name: "a", From: ms(15), To: ms(16), Held: true, Holder: "x"}, {Name: "a", From: ms(516), To: ms(517), Held: true, Holder: "x"},
			}},
			History{Scene: safe, Turns: []*Turn{use(1, kindMulti, "a", 1, 2, 10), use(2, kindMulti, "a", 3, 1000, 2000)}, Samples: []sample{
				{Name: "a", From: ms(15), To: ms(16), Held: true, Holder: "x"}, {Name: "a", From: ms(716), To: ms(717), Held: true, Holder: "x"},
			}},
		},
		{
			"stray: for 2.899s", // a process that was killed could not release what its attempt had acquired
			History{
				Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 300, 0).with(func(t *Turn) { t.Answer, t.Unlock = failed, "" })},
				Events: []Event{{From: ms(400), To: ms(401), Site: "site1", Killed: true}}, Samples: []sample{
					{Name: "a", From: ms(401), To: ms(402), Held: true, Holder: "x"}, {Name: "a", From: ms(3300), To: ms(3301), Held: true, Holder: "x"},
				},
			},
			History{
				Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 300, 0).with(func(t *Turn) { t.Answer, t.Unlock = failed, "" })},
				Events: []Event{{From: ms(400), To: ms(401), Site: "site1", Killed: false}}, Samples: []sample{
					{Name: "a", From: ms(401), To: ms(402), Held: true, Holder: "x"}, {Name: "a", From: ms(3300), To: ms(3301), Held: true, Holder: "x"},
				},
			},
		},
		{
			"  meanwhile: site1/0 (turn 2: ", // whoever waited
			History{Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10), use(2, kindLock, "a", 3, 1000, 2000)}},
			History{Scene: safe, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 10), use(2, kindLock, "a", 3, 1000, 2000)}, Samples: []sample{
				{Name: "a", From: ms(15), To: ms(16), Held: true, Holder: "x"}, {Name: "a", From: ms(516), To: ms(517), Held: true, Holder: "x"},
			}},
		},
		{
			"late: one in a hundred",
			History{
				Turns: []*Turn{use(1, kindLock, "a", 1, 900, 910).with(func(t *Turn) { t.Ended = ms(15) })},
				Stood: []stall{{ms(10), ms(400)}, {ms(410), ms(890)}},
			},
			History{Turns: []*Turn{use(1, kindLock, "a", 1, 900, 910).with(func(t *Turn) { t.Ended = ms(15) })}, Stood: []stall{{ms(10), ms(100)}}},
		},
		{
			"late: one in a hundred",
			History{Turns: []*Turn{use(1, kindLock, "a", 1, 20, 30).with(func(t *Turn) { t.Ended = ms(15) })}},
			History{Turns: []*Turn{use(1, kindLock, "a", 1, 900, 910).with(func(t *Turn) { t.Ended = ms(15) })}},
		},
	} {
		breaks(t, c.promise, c.good, c.evil)
	}
}

// breaks checks that only the second history breaks a promise.
func breaks(t *testing.T, promise string, good, evil History) {
	t.Helper()
	broken := func(h History) bool {
		return slices.ContainsFunc(Check(&h).Broken, func(s string) bool { return strings.HasPrefix(s, promise) })
	}
	require.False(t, broken(good), promise)
	require.True(t, broken(evil), promise)
}

// TestStoppedProcessMayLoseLocks checks that a process that was stopped for longer than its lease may lose its locks.
func TestStoppedProcessMayLoseLocks(t *testing.T) {
	h := History{Scene: Scene{Safe: true}, Turns: []*Turn{use(1, kindLock, "a", 1, 2, 9000).with(func(t *Turn) {
		t.Lost, t.Unlock = ms(8000), lost
	})}}
	require.NotEmpty(t, Check(&h).Broken)
	h.Events = []Event{{From: ms(3000), To: ms(8000), Site: "site1"}}
	require.Empty(t, Check(&h).Broken)
}
