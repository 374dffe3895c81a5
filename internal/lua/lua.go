// Package lua holds the scripts that rlock runs on Redis, one file each.
//
// Every file opens with the sentence that says what it does, then its KEYS, ARGV and replies; a test holds that header
// and the use of the arguments together. The prelude is put in front of each script that is sent.
package lua

import _ "embed" // for the scripts below

// The scripts, as they are sent less the prelude.
var (
	//go:embed prelude.lua
	Prelude string
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
)
