// Package lua holds the scripts that rlock runs on Redis, one file each.
//
// Every file opens with a sentence that describes the script, followed by its KEYS, ARGV and replies. A test compares this
// header with the arguments that the script uses. Preludes hold the functions that several scripts share, separated by
// blank lines. Each script is sent with the functions that it uses.
package lua

import (
	_ "embed" // for the scripts below
	"regexp"
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
	//go:embed handover_prelude.lua
	HandOverPrelude string

	//go:embed line_prelude.lua
	LinePrelude string

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
	//go:embed lock_inspect.lua
	LockInspect string
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
	//go:embed fenced_handover.lua
	FencedHandOver string
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
)

var function = regexp.MustCompile(`(?m)^local function (\w+)`)

// functions is the line of a script at which the functions are put that no line above it uses.
const functions = "\n-- functions\n"

// With puts into a script the functions of preludes that it uses: on top, or else at the last line "-- functions" above
// their first use. It leaves out the others. Redis creates every function again at each run that gets to it.
func With(script string, preludes ...string) string {
	segments := strings.Split(script, functions)
	for _, part := range slices.Backward(strings.Split(strings.Join(preludes, "\n"), "\n\n")) {
		name := function.FindStringSubmatch(part)
		if name == nil {
			continue
		}
		used := regexp.MustCompile(`\b` + name[1] + `\(|\bpcall\(` + name[1] + `\b`)
		for i, segment := range segments {
			if used.MatchString(segment) {
				segments[i] = strings.TrimSpace(part) + "\n\n" + segment
				break
			}
		}
	}
	return strings.Join(segments, "\n")
}
