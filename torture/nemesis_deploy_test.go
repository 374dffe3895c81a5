package torture

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// idleArena returns an arena with two sites that do nothing by themselves, and the end of its watch.
func idleArena(t *testing.T) (a *Arena, unwatch func()) {
	t.Helper()
	a = newArena(t, Scene{Topology: topologySingle, Safe: true, Mix: mix()})
	for range 2 {
		site := a.site(formPlain, 0)
		site.Lasting = true
		r, err := site.start(func(m message) { a.collector.hear(site.Name, m) })
		require.NoError(t, err)
		t.Cleanup(func() { _, _ = r.close() })
		a.sites = append(a.sites, r)
	}
	unwatch = a.watched()
	t.Cleanup(unwatch)
	return a, unwatch
}

// TestShutdownsStrike checks that a shutdown meets holders at work, and that others then get their locks.
func TestShutdownsStrike(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	a, unwatch := idleArena(t)
	e := Event{From: now()}
	nemeses[n23Deploy](a, rand.New(rand.NewPCG(1, 0)), &e)
	a.collector.happened(e)
	require.Empty(t, e.Err)
	unwatch()
	h := a.collector.history(a.scene, 0, now())
	told, others := 0, 0
	for _, turn := range h.Turns {
		if longest(h.Stood) < shortLease { // otherwise the machine may have cost it a lease
			require.Equal(t, got, turn.Unlock, "%v", turn)
		}
		if turn.Told != 0 {
			told++
		} else {
			others++
		}
	}
	require.Equal(t, deployHolders, told)
	require.Equal(t, deployHolders, others)
	require.Empty(t, Check(h).Broken)
}

// TestSilencesStrike checks that callers who are alone notice a silence, and that a lock is extended and another one lost
// meanwhile.
func TestSilencesStrike(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	a, unwatch := idleArena(t)
	for seed := range uint64(4) { // with some seeds the silence is short
		e := Event{From: now()}
		nemeses[n5BlackHole](a, rand.New(rand.NewPCG(seed, 0)), &e)
		e.To, e.What = now(), n5BlackHole+" "+e.What
		a.collector.happened(e)
		a.alone.Wait()
	}
	unwatch()
	r := Check(a.collector.history(a.scene, 0, now()))
	require.Empty(t, r.Broken)
	require.NotZero(t, r.Figures.Silences)
	require.NotZero(t, r.Figures.Outages)
	require.NotZero(t, r.Figures.Over)
}

// TestWorkersUseEverything checks that the workload reaches each method, and breaks no promise while nothing goes wrong.
func TestWorkersUseEverything(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	a, unwatch := idleArena(t)
	for _, s := range a.sites {
		s.Workers, s.Keepers = 8, 8
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(4*time.Second, cancel).Stop() // not a deadline: an attempt that it cuts off would report an outage
	runSites(ctx, a.sites)
	for _, s := range a.sites {
		require.Empty(t, s.unsettled())
	}
	unwatch()
	r := Check(a.collector.history(a.scene, 0, now()))
	require.Empty(t, r.Broken)
	for what, n := range map[string]int{
		"got": r.Figures.Got, "refused": r.Figures.Refused, "failed": r.Figures.Failed, "Do": r.Figures.Dos,
		"extended": r.Figures.Extends, "over": r.Figures.Over, "gauges": r.Figures.Gauges,
	} {
		require.NotZero(t, n, what)
	}
	t.Log(&r.Figures)
}
