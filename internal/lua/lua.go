// Package lua holds the scripts that rlock runs on Redis, one file each.
//
// Every file opens with a sentence that describes the script, followed by its KEYS, ARGV and replies. A test compares this
// header with the arguments that the script uses. Preludes hold the functions that several scripts share, separated by
// blank lines. Each script is sent with the functions that it uses.
package lua

import (
	_ "embed" // for the scripts below
	"slices"
	"strings"
)

// The scripts, without the functions of the preludes that they use. [With] adds these.
var (
	//go:embed prelude.lua
	Prelude string
	//go:embed fair_prelude.lua
	FairPrelude string
	//go:embed rw_prelude.lua
	RWPrelude string
	//go:embed fenced_prelude.lua
	FencedPrelude string

	//go:embed line_prelude.lua
	LinePrelude string

	//go:embed once_prelude.lua
	OncePrelude string
	//go:embed counter_prelude.lua
	CounterPrelude string

	//go:embed client_write.lua
	ClientWrite string

	//go:embed once_mark.lua
	OnceMark string

	//go:embed latch_set.lua
	LatchSet string
	//go:embed latch_countdown.lua
	LatchCountDown string
	//go:embed latch_count.lua
	LatchCount string
	//go:embed latch_delete.lua
	LatchDelete string

	//go:embed lock_acquire.lua
	LockAcquire string
	//go:embed lock_count.lua
	LockCount string
	//go:embed lock_release.lua
	LockRelease string
	//go:embed lock_renew.lua
	LockRenew string
	//go:embed lock_force.lua
	LockForce string
	//go:embed lock_park.lua
	LockPark string
	//go:embed lock_ticket.lua
	LockTicket string
	//go:embed lock_inspect.lua
	LockInspect string
	//go:embed lock_info.lua
	LockInfo string
	//go:embed lock_handover.lua
	LockHandOver string

	//go:embed line_acquire.lua
	LineAcquire string
	//go:embed line_release.lua
	LineRelease string
	//go:embed line_force.lua
	LineForce string
	//go:embed line_pump.lua
	LinePump string
	//go:embed line_read_release.lua
	LineReadRelease string

	//go:embed fenced_acquire.lua
	FencedAcquire string
	//go:embed fenced_write_acquire.lua
	FencedWriteAcquire string

	//go:embed fair_acquire.lua
	FairAcquire string
	//go:embed fair_release.lua
	FairRelease string
	//go:embed fair_force.lua
	FairForce string

	//go:embed read_acquire.lua
	ReadAcquire string
	//go:embed read_count.lua
	ReadCount string
	//go:embed read_release.lua
	ReadRelease string
	//go:embed read_renew.lua
	ReadRenew string
	//go:embed read_force.lua
	ReadForce string
	//go:embed read_inspect.lua
	ReadInspect string

	//go:embed write_acquire.lua
	WriteAcquire string
	//go:embed write_release.lua
	WriteRelease string
	//go:embed write_force.lua
	WriteForce string
	//go:embed write_inspect.lua
	WriteInspect string

	//go:embed semaphore_prelude.lua
	SemaphorePrelude string

	//go:embed semaphore_acquire.lua
	SemaphoreAcquire string
	//go:embed semaphore_release.lua
	SemaphoreRelease string
	//go:embed semaphore_renew.lua
	SemaphoreRenew string
	//go:embed semaphore_handover.lua
	SemaphoreHandOver string
	//go:embed semaphore_set_up.lua
	SemaphoreSetUp string
	//go:embed semaphore_change.lua
	SemaphoreChange string
	//go:embed semaphore_count.lua
	SemaphoreCount string
	//go:embed semaphore_give_back.lua
	SemaphoreGiveBack string
	//go:embed semaphore_pump.lua
	SemaphorePump string
	//go:embed semaphore_lease.lua
	SemaphoreLease string
	//go:embed semaphore_delete.lua
	SemaphoreDelete string

	//go:embed plain_prelude.lua
	PlainPrelude string
	//go:embed plain_acquire.lua
	PlainAcquire string
	//go:embed plain_release.lua
	PlainRelease string
	//go:embed plain_renew.lua
	PlainRenew string
	//go:embed plain_handover.lua
	PlainHandOver string
	//go:embed plain_drain.lua
	PlainDrain string
	//go:embed plain_receipts.lua
	PlainReceipts string
)

// functions is the line of a script at which the functions are put that no line above it uses.
const functions = "\n-- functions\n"

// With puts into a script the functions of preludes that it uses: on top, or else at the last line "-- functions" above
// their first use. It leaves out the others. Redis creates every function again at each run that gets to it.
//
// Every program that imports rlock runs With for all scripts when it starts, so it searches without regular expressions.
func With(script string, preludes ...string) string {
	var sections [][]string // of the script, each from its last part to its first
	for section := range strings.SplitSeq(script, functions) {
		sections = append(sections, []string{section})
	}
	for _, part := range slices.Backward(strings.Split(strings.Join(preludes, "\n"), "\n\n")) {
		name := declared(part)
		if name == "" {
			continue
		}
		i := slices.IndexFunc(sections, func(parts []string) bool {
			return slices.ContainsFunc(parts, func(part string) bool { return uses(part, name) })
		})
		if i >= 0 {
			sections[i] = append(sections[i], strings.TrimSpace(part)+"\n")
		}
	}
	var all []string
	for _, parts := range sections {
		slices.Reverse(parts)
		all = append(all, parts...)
	}
	return strings.Join(all, "\n")
}

// declared returns the name of the function that a part of a prelude declares. Empty means none.
func declared(part string) string {
	_, declaration, _ := strings.Cut("\n"+part, "\nlocal function ")
	name, _, _ := strings.Cut(declaration, "(")
	return name
}

// uses reports whether a source calls a function, or has pcall do so.
func uses(source, name string) bool {
	for from := 0; ; {
		at := strings.Index(source[from:], name)
		if at < 0 {
			return false
		}
		before, after := source[:from+at], source[from+at+len(name):]
		if strings.HasPrefix(after, "(") && !endsInWord(before) || strings.HasSuffix(before, "pcall(") && !beginsWithWord(after) {
			return true
		}
		from += at + len(name)
	}
}

func endsInWord(text string) bool { return text != "" && inWord(text[len(text)-1]) }

func beginsWithWord(text string) bool { return text != "" && inWord(text[0]) }

// inWord reports whether a character may be part of a name in Lua.
func inWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
