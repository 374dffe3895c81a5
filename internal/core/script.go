package core

import (
	"crypto/sha1" // by which Redis names scripts
	_ "embed"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/go-rlock/rlock/internal/wire"
)

// The scripts as they are written.
var (
	//go:embed lua/line.lua
	lineText string
	//go:embed lua/create.lua
	createText string
	//go:embed lua/lock.lua
	lockText string
	//go:embed lua/acquire.lua
	acquireText string
	//go:embed lua/release.lua
	releaseText string
	//go:embed lua/renew.lua
	renewText string
	//go:embed lua/move.lua
	moveText string
	//go:embed lua/force.lua
	forceText string
	//go:embed lua/permits.lua
	permitsText string
	//go:embed lua/permits_acquire.lua
	permitsAcquireText string
	//go:embed lua/permits_release.lua
	permitsReleaseText string
	//go:embed lua/permits_renew.lua
	permitsRenewText string
)

// A script replies six numbers or one, four, two, or one for each lock that it renews.
var (
	acquire        = script(&acquireText, 6)
	release        = script(&releaseText, 4)
	renew          = script(&renewText, 0)
	move           = script(&moveText, 6)
	force          = script(&forceText, 2)
	permitsAcquire = script(&permitsAcquireText, 6)
	permitsRelease = script(&permitsReleaseText, 2)
	permitsRenew   = script(&permitsRenewText, 0)
)

// Scripts returns the scripts by name, for tests.
func Scripts() map[string]*wire.Script {
	return map[string]*wire.Script{
		"acquire by turns": acquire(), "release by turns": release(), "renew by turns": renew(),
		"move by turns": move(), "force by turns": force(),
		"acquire permits": permitsAcquire(), "release permits": permitsRelease(), "renew permits": permitsRenew(),
	}
}

// script returns what makes a script as it is sent, once it is needed: a planted bug may change a text before. What several share is included at
// its mark; comments and indents are left out.
func script(written *string, numbers int) func() *wire.Script {
	return sync.OnceValue(func() *wire.Script {
		text := strings.Replace(*written, "--@permits\n", permitsText, 1)
		text = strings.Replace(text, "--@lock\n", lockText, 1)
		text = strings.Replace(text, "--@create\n", createText, 1)
		text = strings.Replace(text, "--@line\n", lineText, 1)
		var sent []string
		for line := range strings.Lines(text) {
			code, _, _ := strings.Cut(line, "--")
			if code = strings.TrimSpace(code); code != "" {
				sent = append(sent, code)
			}
		}
		text = strings.Join(sent, "\n")
		sum := sha1.Sum([]byte(text))
		return &wire.Script{Source: text, Digest: hex.EncodeToString(sum[:]), Keys: 3, Numbers: numbers, Short: numbers == 6, Gathers: numbers > 0}
	})
}
