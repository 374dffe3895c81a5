package scene

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOnlyWhatWasForgottenIsExcused has two owners inside at once, in a scene in which Redis forgets. That is a broken promise, unless one of
// them asked before Redis last forgot something.
func TestOnlyWhatWasForgottenIsExcused(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		forgets func(s strike, pass func())
		excused bool
		late    bool // the one who comes second has asked before anything else happened
	}{
		"forgotten before both": {func(s strike, pass func()) { s.hasForgotten(); pass() }, false, false},
		"forgotten between":     {func(s strike, pass func()) { pass(); s.isForgetting(); s.hasForgotten() }, true, false},
		"is forgetting":         {func(s strike, pass func()) { s.isForgetting(); pass() }, true, false},
		"a reply was late":      {func(s strike, pass func()) { time.Sleep(time.Second); s.isForgetting(); s.hasForgotten(); pass() }, true, true},
	} {
		for _, kind := range []string{kindFenced, kindSemaphore} {
			t.Run(what+", "+kind, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r, a, b := stage(t)
					r.Unsafe = true
					target := &target{kind: kind, name: "x"}
					ask := func(w *worker) *attempt { return w.asks(plan{of: target, permits: 2}) }
					enter := func(w *worker, a *attempt) {
						w.answered(w.ctx, a, nil)
						w.enters(a, &holder{plan: a.plan, p: w.process, asked: a.asked, since: time.Now(), err: func() error { return nil }}, 0)
						time.Sleep(time.Second)
					}
					var early *attempt
					if c.late {
						early = ask(b)
					}
					c.forgets(strike{run: r}, func() { time.Sleep(time.Second); enter(a, ask(a)) })
					if early == nil {
						early = ask(b)
					}
					enter(b, early)
					broken := slices.ContainsFunc(r.res.Broken, func(text string) bool {
						return strings.Contains(text, "exclusion: ") || strings.Contains(text, "permits: ")
					})
					require.Equal(t, !c.excused, broken, r.res.Broken)
				})
			})
		}
	}
}

// TestEveryTopologyIsDrawn draws scenes: each topology has its nemeses, and what it may forget.
func TestEveryTopologyIsDrawn(t *testing.T) {
	t.Parallel()
	drawn := make(map[string]bool)
	for seed := range uint64(3000) {
		s := Swarm(seed)
		for _, what := range s.Nemeses {
			drawn[s.Topology+" "+what] = true
		}
	}
	for _, one := range []string{
		"replicas lag", "replicas switch", "replicas failover", "sentinel switch", "sentinel failover", "cluster switch", "cluster slot", "cluster failover",
	} {
		require.True(t, drawn[one], one)
	}
	for one := range drawn {
		topology, what, _ := strings.Cut(one, " ")
		if topology == "" {
			require.NotContains(t, groupNemeses, what, one)
		}
		require.False(t, topology != topologyCluster && what == nemesisSlot, one)
	}
}
