package torture

import (
	"fmt"
	"slices"
	"time"
)

// Figures are the counts and measurements of a run.
type Figures struct {
	Turns, Got, Refused, Failed int
	Checked, Refusals           int // operations of which it was checked whether a lock could have done them, and the refusals among them
	Overlaps                    int
	LockSeconds                 float64 // of the keepers' locks
	FalseLosses                 int
	FalseAlarms                 int // unlocks that reported a loss that had not happened
	Stale                       int // writes after a write with a greater token; a fence refuses them
	Yields                      int // readers that got the lock while a writer stood in the line that came before them
	MostOvertaken               int // the most later waiters that got a fair lock before an earlier one
	Orphans, Late, WakeUps      Spread
	Stalls                      Spread

	Counts int // semaphores and latches whose rest was checked

	Dos, Extends, Shutdowns int
	Outages                 int // calls that reported one
	Silences                int // attempts during which Redis was silent, and nobody else in the process wanted the lock
	Over                    int // unlocks of locks that were known to be lost
	Gauges                  int // looks at Stats
	Terms, Adoptions        int // of leaders, and of exported holds

	// Of fleets.

	Gaps      Spread   // how long a name was free that somebody wanted
	JavaWaits Spread   // of Redisson's peer
	Overslept int      // times that the peer slept until its hint was over
	Spread    []string // the least and the most turns of a process
	Java      []string // the turns of the peer
}

// Spread is a distribution of durations.
type Spread []time.Duration

func (s Spread) at(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	slices.Sort(s)
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

func (s Spread) String() string {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return fmt.Sprintf("%d: p50 %.1f, p99 %.1f, max %.1f ms", len(s), ms(s.at(0.5)), ms(s.at(0.99)), ms(s.at(1)))
}

func (f *Figures) String() string {
	fleet := ""
	if len(f.Gaps) > 0 {
		fleet = fmt.Sprintf("\nfleets: turns of the processes %v; hand-offs %v\nRedisson's peer: %v; waits %v; %d sleeps until the end of a hint",
			f.Spread, f.Gaps, f.Java, f.JavaWaits, f.Overslept)
	}
	return fmt.Sprintf(`%d turns: %d got the lock, %d were refused, %d failed; %d operations and %d of the refusals were checked for an order
overlaps %d; counts checked %d; false losses %d in %.0f lock-seconds; false alarms %d; stale writes %d
fair: overtaken by at most %d; %d readers had their turn before a writer of the line
wake-ups %v
orphans  %v
late     %v; stalls of the machine %v
%d sections in Do; %d leases extended; %d shutdowns; %d outages reported; %d attempts in silence; %d unlocks of lost locks; %d gauges read; %d leaders; %d adoptions`,
		f.Turns, f.Got, f.Refused, f.Failed, f.Checked, f.Refusals,
		f.Overlaps, f.Counts, f.FalseLosses, f.LockSeconds, f.FalseAlarms, f.Stale, f.MostOvertaken, f.Yields,
		f.WakeUps, f.Orphans, f.Late, f.Stalls,
		f.Dos, f.Extends, f.Shutdowns, f.Outages, f.Silences, f.Over, f.Gauges, f.Terms, f.Adoptions) + fleet
}

// add adds the figures of another scene.
func (f *Figures) add(other Figures) {
	f.Turns += other.Turns
	f.Got += other.Got
	f.Refused += other.Refused
	f.Failed += other.Failed
	f.Checked += other.Checked
	f.Refusals += other.Refusals
	f.Overlaps += other.Overlaps
	f.Counts += other.Counts
	f.LockSeconds += other.LockSeconds
	f.FalseLosses += other.FalseLosses
	f.FalseAlarms += other.FalseAlarms
	f.Stale += other.Stale
	f.MostOvertaken = max(f.MostOvertaken, other.MostOvertaken)
	f.Yields += other.Yields
	f.Orphans = append(f.Orphans, other.Orphans...)
	f.Late = append(f.Late, other.Late...)
	f.WakeUps = append(f.WakeUps, other.WakeUps...)
	f.Stalls = append(f.Stalls, other.Stalls...)
	f.Dos += other.Dos
	f.Extends += other.Extends
	f.Shutdowns += other.Shutdowns
	f.Outages += other.Outages
	f.Silences += other.Silences
	f.Over += other.Over
	f.Gauges += other.Gauges
	f.Terms += other.Terms
	f.Adoptions += other.Adoptions
	f.Gaps = append(f.Gaps, other.Gaps...)
	f.JavaWaits = append(f.JavaWaits, other.JavaWaits...)
	f.Overslept += other.Overslept
	f.Spread = append(f.Spread, other.Spread...)
	f.Java = append(f.Java, other.Java...)
}
