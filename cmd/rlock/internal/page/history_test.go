package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
)

// past applies looks to a state, at times that a test chooses.
type past struct {
	*state
	at time.Time
}

func newPast() *past { return &past{newState(), time.UnixMilli(1_700_000_000_000)} }

func (p *past) look(after time.Duration, rows ...catalog.Row) { p.lookAt(after, false, rows...) }

// lookAt looks, and cut means that it did not read all rows.
func (p *past) lookAt(after time.Duration, cut bool, rows ...catalog.Row) {
	p.at = p.at.Add(after)
	var seen []sighting
	for _, row := range rows {
		seen = append(seen, newSighting(&row, p.at))
	}
	total := len(seen)
	if cut {
		total++
	}
	p.apply(seen, look{total: total, begun: p.at, ended: p.at})
}

func (p *past) holds(name string) (all []hold) {
	for _, one := range p.histories.tracks[idOf(name)].holds {
		h := *one
		h.seen, h.lease, h.key, h.named = time.Time{}, lease{}, "", false
		all = append(all, h)
	}
	return all
}

func TestHistoryOfHolders(t *testing.T) {
	p := newPast()
	p.look(0, held("a", "one:1"))
	p.look(time.Second, held("a", "one:1"))
	p.look(time.Second, held("a", "one:2"))
	p.look(time.Second)
	p.look(time.Second, held("a", "two:1"))
	p.look(time.Minute, held("a", "two:2")) // nobody looked meanwhile
	h := p.holds("a")
	require.Len(t, h, 4)
	assert.True(t, h[0].Before)
	assert.EqualValues(t, 2000, h[0].End-h[0].Start)
	assert.False(t, h[0].After)
	assert.Equal(t, hold{Who: "one:2", Start: h[0].End, End: h[0].End + 1000}, h[1])
	assert.False(t, h[2].Before)
	assert.True(t, h[2].After, "it ended at some time of that minute")
	assert.Equal(t, h[2].Start, h[2].End)
	assert.True(t, h[3].Before)
	assert.Zero(t, h[3].End)
}

// TestAHoldIsAHolder tells those of several apart, also where a look names only one of them.
func TestAHoldIsAHolder(t *testing.T) {
	p := newPast()
	readers := func(holder string, n int) catalog.Row {
		row := held("a", holder)
		row.Kind, row.Mode, row.Holders = catalog.Read, "read", n
		return row
	}
	p.look(0)
	p.look(time.Second, readers("one:1", 1))
	p.look(time.Second, readers("two:1", 2))
	p.look(time.Second, readers("one:1", 2)) // the same two
	p.look(time.Second, readers("one:1", 1))
	h := p.holds("a")
	require.Len(t, h, 2)
	assert.False(t, h[0].Before)
	assert.Zero(t, h[0].End, "it never left")
	assert.Equal(t, h[0].Start, p.rows[idOf("a")].Since)
	assert.EqualValues(t, 1000, h[1].Start-h[0].Start)
	assert.True(t, h[1].After, "it is not known when it left")
	p.look(time.Second, func() catalog.Row { row := readers("three:1:write", 1); row.Mode = "write"; return row }())
	p.look(time.Second, readers("four:1", 2))
	assert.Equal(t, "four:1", p.rows[idOf("a")].Who, "a writer is none of the readers")
}

// TestOthersAreNotTakenForThoseBefore although they are as many: after a FLUSHALL, for example.
func TestOthersAreNotTakenForThoseBefore(t *testing.T) {
	p := newPast()
	leave := p.watch(idOf("slots"))
	defer leave()
	look := func(after time.Duration, holders ...string) lockView {
		p.at = p.at.Add(after)
		row := catalog.Row{Name: "slots", Kind: catalog.Semaphore, Holder: holders[0], Holders: len(holders), Lease: time.Minute}
		p.look(0, row)
		d := &catalog.Details{Row: row}
		for _, h := range holders {
			d.HolderList = append(d.HolderList, rlock.HolderInfo{Holder: h, Lease: time.Minute})
		}
		p.applyDetails(idOf("slots"), d, p.at)
		return *p.page(idOf("slots")).Lock
	}
	look(0, "p1", "p2", "p3")
	look(time.Second, "p1", "p2", "p3")
	v := look(15*time.Minute, "p4", "p5", "p6")
	for _, h := range v.Holders {
		assert.Equal(t, p.at.UnixMilli(), h.Since)
	}
	assert.Equal(t, p.at.UnixMilli(), p.rows[idOf("slots")].Since)
	h := p.holds("slots")
	require.Len(t, h, 6)
	for i, one := range h {
		assert.Equal(t, i < 3, one.End != 0)
		assert.Equal(t, i < 3, one.After)
	}
	view := p.page(idOf("slots"))
	require.NotEmpty(t, view.Looked)
	for _, s := range view.Looked {
		assert.Less(t, s[1]-s[0], int64(2000), "nobody looked meanwhile")
	}
}

func TestARowKeepsShowingOneOfSeveralHolders(t *testing.T) {
	p := newPast()
	row := func(holder string, n int) rowView {
		r := held("a", holder)
		r.Holders, r.Lease = n, 30*time.Second-p.at.Sub(time.UnixMilli(1_700_000_000_000))%(10*time.Second)
		p.look(500*time.Millisecond, r)
		return *p.rows[idOf("a")]
	}
	first := row("one:1", 3)
	version := p.version
	for i := range 15 {
		assert.Equal(t, first.Who, row([]string{"two:1", "three:1", "one:1"}[i%3], 3).Who)
	}
	assert.Equal(t, version, p.version, "no traffic")
	assert.Equal(t, "two:1", row("two:1", 4).Who, "the other one may be gone")
	for range 32 {
		row("three:1", 4)
	}
	assert.Equal(t, "three:1", row("three:1", 4).Who, "it seems to be gone")
	last := row("new:1", 1)
	assert.Equal(t, "new:1", last.Who)
	assert.True(t, last.Before, "it was one of the four")
}

func TestAHolderKeepsItsIdentity(t *testing.T) {
	p := newPast()
	row := held("a", "one:1")
	p.look(0, row)
	assert.Equal(t, "one:1", p.rows[idOf("a")].Who)
	row.Identity = &rlock.Identity{Service: "billing"}
	p.look(time.Second, row)
	row.Identity = nil // it has expired, or the reply was late
	p.look(time.Second, row)
	assert.Equal(t, "billing", p.rows[idOf("a")].Who)
	assert.Equal(t, "billing", p.holds("a")[0].Who)
	p.look(time.Second, held("a", "one:2"))
	assert.Equal(t, "one:2", p.rows[idOf("a")].Who)
}

func TestHistoryIsBounded(t *testing.T) {
	p := newPast()
	for i := range maxHolds + 50 {
		p.look(time.Second, held("a", fmt.Sprint("one:", i)))
	}
	h := p.holds("a")
	require.Len(t, h, maxHolds)
	assert.Equal(t, fmt.Sprint("one:", maxHolds+49), h[maxHolds-1].Who)
	assert.Equal(t, maxHolds, p.histories.total)
	p.histories.total = allHolds
	p.look(time.Second, held("a", "more:1"), held("b", "more:1"))
	p.look(time.Second, held("a", "more:2"), held("b", "more:2"))
	assert.Equal(t, allHolds+1, p.histories.total)
	assert.Len(t, p.holds("b"), 1)
}

func TestHistoryOfLocksThatAreGoneIsBounded(t *testing.T) {
	p := newPast()
	for i := range 10 {
		var rows []catalog.Row
		for j := range 500 {
			rows = append(rows, held(fmt.Sprintf("lock-%d-%d", i, j), "one:1"))
		}
		p.look(time.Second, rows...)
	}
	p.look(time.Second)
	assert.LessOrEqual(t, len(p.histories.tracks), maxGone+slack)
	assert.Equal(t, len(p.histories.tracks), p.histories.gone)
	assert.NotNil(t, p.histories.tracks[idOf("lock-9-499")], "the latest stay")
	total := 0
	for _, track := range p.histories.tracks {
		total += len(track.holds)
	}
	assert.Equal(t, total, p.histories.total)
}

func TestALookThatIsCutDoesNotKnowWhatIsGone(t *testing.T) {
	p := newPast()
	p.lookAt(0, true, held("a", "one:1"))
	p.lookAt(time.Second, true, held("a", "one:1"))
	p.lookAt(time.Second, true)
	h := p.holds("a")
	require.Len(t, h, 1)
	assert.True(t, h[0].After)
	assert.EqualValues(t, 1000, h[0].End-h[0].Start, "when it was seen last")
	p.lookAt(time.Second, true, held("a", "one:1"))
	h = p.holds("a")
	require.Len(t, h, 1, "it was there all the while")
	assert.Zero(t, h[0].End)
	p.lookAt(time.Second, true)
	p.lookAt(time.Second, true, held("a", "one:2"))
	assert.True(t, p.rows[idOf("a")].Before)
	p.look(time.Second)
	assert.False(t, p.holds("a")[1].After, "now it is known")
}

func TestAHolderTakesAFencedLockAgain(t *testing.T) {
	p := newPast()
	row := held("a", "one:1")
	row.Token = 7
	p.look(0, row)
	p.look(time.Second, row)
	row.Token = 8
	p.look(time.Second, row)
	h := p.holds("a")
	require.Len(t, h, 2)
	assert.EqualValues(t, 2000, h[0].End-h[0].Start)
	view := p.rows[idOf("a")]
	assert.Equal(t, p.at.UnixMilli(), view.Since)
	assert.False(t, view.Before)
	details := &catalog.Details{Row: row, HolderList: []rlock.HolderInfo{{Holder: "one:1", Client: "one"}}}
	lock := p.details(details, p.histories.tracks[idOf("a")], p.at.Add(time.Second), true)
	assert.Equal(t, view.Since, lock.Holders[0].Since, "both views agree")
}

func TestSinceIsNotKnownAfterAnOutage(t *testing.T) {
	s := newState()
	defer s.watch(idOf("a"))()
	at := time.UnixMilli(1_700_000_000_000)
	look := func(after time.Duration, holder string) holderView {
		at = at.Add(after)
		row := held("a", holder)
		s.applyDetails(idOf("a"), &catalog.Details{Row: row, HolderList: []rlock.HolderInfo{{Holder: holder, Client: row.Client}}}, at)
		return s.page(idOf("a")).Lock.Holders[0]
	}
	assert.True(t, look(0, "one:1").Before)
	assert.False(t, look(time.Second, "two:1").Before)
	assert.True(t, look(time.Minute, "three:1").Before, "nobody could look meanwhile")
	assert.False(t, look(time.Second, "four:1").Before)
}

func TestNobodyKnowsWhatHappenedWhileTheMachineSlept(t *testing.T) {
	assert.True(t, soonAfter(500*time.Millisecond, 500*time.Millisecond))
	assert.False(t, soonAfter(time.Hour, 500*time.Millisecond), "the monotonic clock stood still")
	assert.False(t, soonAfter(500*time.Millisecond, time.Hour))
	assert.False(t, soonAfter(2500*time.Millisecond, 500*time.Millisecond), "a short sleep")
	assert.False(t, soonAfter(-time.Hour, 500*time.Millisecond), "the clock was set back")
	assert.False(t, recent(time.Time{}, time.Now()))
	p := newPast()
	p.look(0, held("a", "one:1"))
	p.look(-time.Hour)
	h := p.holds("a")[0]
	assert.GreaterOrEqual(t, h.End, h.Start)
	assert.True(t, h.After)
	track := &track{holds: []*hold{{key: "k", Start: p.at.UnixMilli()}}}
	p.histories.note(track, nil, true, p.at.Add(-time.Hour), true)
	assert.Equal(t, track.holds[0].Start, track.holds[0].End)
}

func TestTimesThatAreNoDates(t *testing.T) {
	far := time.UnixMilli(9_000_000_000_000_000_000)
	for _, at := range []time.Time{{}, far, time.UnixMilli(-1), time.Unix(1<<62, 0), time.UnixMilli(maxMillis + 1)} {
		assert.Zero(t, millis(at), at)
	}
	assert.EqualValues(t, 1_700_000_000_000, millis(time.UnixMilli(1_700_000_000_000)))
	details := &catalog.Details{
		Row: held("a", "one:1"), HolderList: []rlock.HolderInfo{{Holder: "one:1", Client: "one", Identity: &rlock.Identity{Service: "s", Started: far}}},
		WaiterList: []rlock.WaiterInfo{{Client: "two", Since: far}},
	}
	s := newState()
	v := s.details(details, s.histories.of(idOf("a"), "a"), time.Now(), false)
	assert.Zero(t, v.Holders[0].Started)
	assert.Zero(t, v.Waiters[0].Since)
}

func TestLocksThatWereOnlyLookedAtAreBounded(t *testing.T) {
	s := newState()
	for i := range 2 * (maxGone + slack) {
		id := idOf(fmt.Sprint(i))
		leave := s.watch(id)
		s.applyDetails(id, &catalog.Details{Row: held(fmt.Sprint(i), "one:1")}, time.UnixMilli(int64(i)))
		leave()
	}
	assert.LessOrEqual(t, len(s.histories.tracks), maxGone+slack)
}

func TestTextsArePrintable(t *testing.T) {
	assert.Equal(t, "<b>ä</b>", printable("<b>ä</b>"))
	assert.Equal(t, `a\u202eb\x00\xff\n`, printable("a\u202eb\x00\xff\n"))
	assert.Equal(t, "", printable(""))
	assert.Equal(t, `a\\u202e`, printable(`a\u202e`), "it looks different from the character")
	assert.Equal(t, `a\u3164\ufe0f\u2800`, printable("a\u3164\ufe0f\u2800"))
	assert.Equal(t, strings.Repeat(`\x00`, maxText/4)+"…", printable(strings.Repeat("\x00", maxText)))
	assert.Equal(t, "billing", whoOf("x", "x:1", false, &rlock.Identity{Service: "billing"}))
	assert.Equal(t, "0b5e7a52", whoOf("0b5e7a52-7d8e-4f66-8a5c-1c8e4c6a8f00", "", false, nil))
	assert.Equal(t, "0b5e7a52:7", whoOf("0b5e7a52-7d8e-4f66-8a5c-1c8e4c6a8f00", "0b5e7a52-7d8e-4f66-8a5c-1c8e4c6a8f00:7:write", false, nil))
	for _, name := range []string{"", "orders", "\xff\x00", "a/b"} {
		got, known, ok := nameOf(idOf(name))
		assert.True(t, known && ok)
		assert.Equal(t, name, got)
	}
	for _, id := range []string{"%", "~", "~short", "a b"} {
		_, _, ok := nameOf(id)
		assert.False(t, ok, id)
	}
}
