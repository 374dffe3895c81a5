package table

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var planted = flag.String("planted", "", `plant this bug, or "all", and see whether the model test finds it`)

// huntLength is within how many schedules the model test must find each of the bugs.
const huntLength = "20000"

// bug is a mistake that is planted in the table, and the invariants of which it breaks at least one.
type bug struct {
	name  string
	what  string
	edits []edit
}

// edit replaces a text that a file of the package has exactly once.
type edit struct{ file, old, planted string }

// The bugs are planted with an overlay, so that the table's own source knows nothing of them.
var bugs = []bug{
	{"1", "a lease counts from the reply", []edit{
		{"settle.go", "g.confirm(a.sent, a.Lease, n)\n\tif a.line", "g.confirm(now, a.Lease, n)\n\tif a.line"},
	}},
	{"2", "a wait that ends ignores a lock that was handed over meanwhile", []edit{
		{"attempt.go", "if a.got != nil {\n\t\treturn t.succeed(a, a.got, n)\n\t}\n\tif a.phase", "if a.phase"},
	}},
	{"3", "a late grant of a retired number is ignored", []edit{
		{"late.go", "if g.stage == retired {\n\t\tt.cleanUp", "if false {\n\t\tt.cleanUp"},
	}},
	{"4", "a number in doubt gets no tombstone", []edit{
		{"grant.go", "return policy.Tombstone(g.term.Lease)", "return policy.Tombstone(0) * 0"},
	}},
	{"5", "renewals include grants that are being released", []edit{
		{"due.go", "case t.closed, !g.inRound || g.stage != held || g.term.Past(now):", "case t.closed:"},
		{"due.go", "case longest != b.lease: // an", "case longest < 0: // an"},
	}},
	{"6", "the end of the exclusive holder does not wake the head", []edit{
		{"grant.go", "if l := t.lines.Of(k); l != nil {", "if l := t.lines.Of(k); false {"},
	}},
	{"7", "a hand-over to a waiter that left needs no release", []edit{
		{"attempt.go", "a.grant.inDoubt = true // the hand-over", "a.grant.inDoubt = a.grant.inDoubt // the hand-over"},
	}},
	{"8", "a re-entry whose holder is gone counts as acquired", []edit{
		{"settle.go", "case r.N == 0 && g.stage == held:", "case false:"},
	}},
	{"9", "two unlocks of a handle choose the same acquisition", []edit{
		{"exit.go", "if a.closed {", "if false {"},
		{"handle.go", "return !a.closed && a.plain == plain", "return a.plain == plain"},
	}},
	{"10", "an attempt is refused in this process although the holder is past its deadline", []edit{
		{"line.go", "if g == nil || g.stage != held || a.grant", "if g = t.holder(a.Handle.Key); g == nil || g.owner == a.grant.owner || g.stage != held || a.grant"},
	}},
	{"11", "an empty local queue forgets to stop listening", []edit{
		{"line.go", "\t\tn.Unlisten(&l.Shared.heard)\n", ""},
	}},
	{"12", "the alarm is not moved when something is due earlier", []edit{
		{"../queue/heap.go", "h.alarm == 0 || due < h.alarm", "h.alarm == 0"},
	}},
	{"13", "a reply after the deadline is accepted", []edit{
		{"settle.go", "case term.Late(a.sent, a.Lease, now), t.forced", "case term.Late(a.sent, a.Lease, a.sent), t.forced"},
	}},
	{"14", "a writer that takes its read lock queues", []edit{
		{"attempt.go", "case a.Handle.Kind.Queues || a.grant.sibling().usable(now):", "case a.Handle.Kind.Queues:"},
		{"attempt.go", "case a.grant.sibling().usable(now): // it need", "case false: // it need"},
	}},
	{"15", "an unlock past the deadline asks Redis", []edit{
		{"exit.go", "t.loseIfPast(g, now, n)\n\ta.closed = true", "a.closed = true"},
		{"exit.go", "t.loseIfPast(g, now, n)\n\tswitch {", "switch {"},
	}},
	{"16", "the release after an unlock past the deadline waits for the end of the margin", []edit{
		{"exit.go", "t.lose(g, errLeaseEnded, now, n)", "t.expire(g, n)"},
	}},
	{"M1", "a hand-over of a fenced lock keeps the last holder's token", []edit{
		{
			"handover.go", "\tt.handedOver(x.next, x.nextGrant, r, now, n)\n",
			"\tif r.Acquired() {\n\t\tr.N = int64(x.grant.token)\n\t}\n\tt.handedOver(x.next, x.nextGrant, r, now, n)\n",
		},
	}},
	{"M2", "a fenced handle re-enters a hold without a token", []edit{
		{"handle.go", "case h.Kind.Tokens && !fenced:", "case false:"},
	}},
	{"M3", "a fenced lock is handed over without asking Redis", []edit{
		{"handover.go", "!t.cfg.Lazy || !g.handle.Kind.Lazy || t.cfg.Acks", "!t.cfg.Lazy || t.cfg.Acks"},
	}},
	{"M4", "a lock is handed over to a waiter whose handle has tokens, without one", []edit{
		{"handover.go", "a.Handle.Kind != k", "a.Handle.Kind.HandOver == nil"},
	}},
	{"L.2a", "a question that the end of a wait cuts off counts as an outage", []edit{
		{"../outcome/outcome.go", "now.Sub(r.asked) >= floor", "now.Sub(r.asked) >= 0"},
	}},
	{"L.2b", "a refusal stands although a later question failed", []edit{
		{"../outcome/outcome.go", "*r = Record{failure: err}", "r.failure, r.asked = err, 0"},
		{"../outcome/outcome.go", "case r.failure != nil:", "case r.failure != nil && !r.refused:"},
	}},
	{"L.2c", "a refusal stands although a later question has had no reply", []edit{
		{"../outcome/outcome.go", "if r.asked == 0 {", "if r.asked == 0 && !r.refused {"},
	}},
	{"L.4a", "a local refusal counts forever", []edit{
		{"../outcome/outcome.go", "r.until != 0 &&", "false &&"},
	}},
	{"L.4b", "a hold of this process does not count as a refusal", []edit{
		{"attempt.go", "rival != nil && rival.stage == held {", "rival != nil && false {"},
	}},
	{"L.7", "a waiter asks a last time although its call has to return", []edit{
		{"attempt.go", "!t.bars(a, now) && !a.overdue(now) {", "!t.bars(a, now) {"},
	}},
	{"stop 1", "a shutdown does not wait for re-entered acquisitions", []edit{
		{"grant.go", "g.table.open++", "if len(g.acquisitions) == 1 {\n\t\tg.table.open++\n\t}"},
		{"shutdown.go", "if !a.settled {", "if !a.settled && a == &a.grant.first {"},
	}},
	{"stop 2", "a lock is handed over during a shutdown", []edit{
		{"handover.go", "k.HandOver == nil || t.stopping ||", "k.HandOver == nil || t.closed ||"},
	}},
	{"stop 3", "an acquire that is under way when a shutdown begins is granted", []edit{
		{"settle.go", "case t.bars(a, now):\n\t\tg.needsCleanup", "case t.closed:\n\t\tg.needsCleanup"},
	}},
	{"stop 4", "a shutdown ends the renewals", []edit{
		{"due.go", "case g.stage == held && !t.closed:", "case g.stage == held && !t.stopping:"},
	}},
	{"stop 5", "a holder that asks during a shutdown is not told of it", []edit{
		{"acquisition.go", "if why == nil && t.stopping {", "if false {"},
	}},
	{"stop 6", "a shutdown waits for a lost lock", []edit{
		{"grant.go", "t.settleOver(g)\n\tt.counts.lost(g)\n\topen := false", "t.counts.lost(g)\n\topen := false"},
	}},
	{"stop 7", "a waiter keeps a lock that was handed to it although it hears of the shutdown first", []edit{
		{"attempt.go", "if a.got != nil && t.bars(a, now) {", "if false {"},
	}},
	{"stop 8", "the count of held locks counts acquisitions", []edit{
		{"settle.go", "\tt.counts.Held++\n", ""},
		{"grant.go", "g.table.open++", "g.table.open++\n\tg.table.counts.Held++"},
	}},
	{"stop 9", "a shutdown ends a re-entry that waits for a connection", []edit{
		{"settle.go", "t.stopping && !t.bars(a, now)\n}", "t.stopping && false\n}"},
	}},
	{"E.2", "a hand-over may end the lease earlier", []edit{
		{"handover.go", "ended(a.Wait) || g.outlasts(a.Lease, now) {", "ended(a.Wait) {"},
	}},
	{"N.2", "a renewal uses the shortest lease", []edit{
		{"grant.go", "return longest, shortest", "return shortest, shortest"},
	}},
	{"N.8", "an extension without a reply moves the deadline", []edit{
		{"extend.go", "case !g.usable(now) || r.Err != nil:\n\tcase r.List[0] == 1:", "case !g.usable(now):\n\tcase r.Err != nil || r.List[0] == 1:"},
	}},
	{"N.8b", "the late reply of an extension revives a hold", []edit{
		{"extend.go", "case !g.usable(now) || r.Err != nil:", "case r.Err != nil || g.stage == retired:"},
	}},
	{"N.8c", "an extension forgets how long Redis may keep the lock", []edit{
		{"extend.go", "\tg.sending(d, now)\n", ""},
	}},
	{"N.6", "a lazy hand-over goes to another lease", []edit{
		{"handover.go", "if !a.Renewed || x.acq.renewal != lease || g.term.Lease != lease || g.lengthened {", "if !a.Renewed {"},
	}},
	{"N.3", "a renewal is due before the end of the lease, not after the last confirmation", []edit{
		{"../term/term.go", "min(t.Confirmed.Add(shortest/3), t.Ends().Add(-longest*2/3))", "t.Ends().Add(-longest * 2 / 3)"},
	}},
	{"N.3b", "a short confirmation puts the next renewal off", []edit{
		{"../term/term.go", "min(t.Confirmed.Add(shortest/3), t.Ends().Add(-longest*2/3))", "t.Confirmed.Add(shortest / 3)"},
	}},
}

// plant returns the files with a bug, by their path.
func (b bug) plant(tb testing.TB) map[string]string {
	tb.Helper()
	files := make(map[string]string)
	for _, e := range b.edits {
		path, err := filepath.Abs(e.file)
		require.NoError(tb, err)
		text, ok := files[path]
		if !ok {
			raw, err := os.ReadFile(path)
			require.NoError(tb, err)
			text = string(raw)
		}
		require.Equal(tb, 1, strings.Count(text, e.old), "bug %s: %q in %s", b.name, e.old, e.file)
		files[path] = strings.Replace(text, e.old, e.planted, 1)
	}
	return files
}

// TestPlantedBugsFit checks that the bugs can be planted, so that they do not rot.
func TestPlantedBugsFit(t *testing.T) {
	t.Parallel()
	for _, b := range bugs {
		b.plant(t)
	}
}

// TestPlantedBugs plants one bug after the other, and runs the model test, which must find it.
func TestPlantedBugs(t *testing.T) {
	if *planted == "" {
		t.Skip("go test ./internal/table -run TestPlantedBugs -planted all")
	}
	for _, b := range bugs {
		if *planted == "all" || *planted == b.name {
			if found := b.hunt(t); found != "" {
				t.Logf("bug %s, %s: %s", b.name, b.what, found)
			} else {
				t.Errorf("bug %s, %s: not found", b.name, b.what)
			}
		}
	}
}

// hunt returns how the model test finds the bug, or nothing.
func (b bug) hunt(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	for path, text := range b.plant(t) {
		file := filepath.Join(dir, filepath.Base(path))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		overlay.Replace[path] = file
	}
	raw, err := json.Marshal(overlay)
	require.NoError(t, err)
	config := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(config, raw, 0o600))
	cmd := exec.Command("go", "test", "-overlay", config, "-run", "^TestModel$", "-v", "-schedules", huntLength, "-story=false", ".")
	out, err := cmd.CombinedOutput()
	if err == nil {
		return ""
	}
	for _, sign := range []string{"broken after ", "panic: "} {
		if at := strings.Index(string(out), sign); at >= 0 {
			lines := strings.SplitN(string(out[at:]), "\n", 3)
			return strings.Join(lines[:min(len(lines), 2)], "; ")
		}
	}
	t.Errorf("bug %s: %s", b.name, out)
	return ""
}
