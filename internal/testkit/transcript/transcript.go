// Package transcript notes what a server that a test plays in Go replied to scripts. The module simulation compares it with the replies of
// the real scripts.
package transcript

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/go-rlock/rlock/internal/wire"
)

// Entry is an event at a server.
type Entry struct {
	Server string // its lock, and the run of the test
	Micros int64  // its clock
	// Raw is a command of somebody else. Over means that the server lost or restored its data, so that what follows is not comparable.
	Raw  []string `json:",omitempty"`
	Over bool     `json:",omitempty"`
	// The rest is about the call of a script.
	Script    string           `json:",omitempty"` // its digest
	Keys      []string         `json:",omitempty"`
	Argv      []string         `json:",omitempty"`
	Listeners map[string]int64 `json:",omitempty"` // of each channel that has any
	Reply     []int64          `json:",omitempty"`
	Holders   []string         `json:",omitempty"` // of the lock afterwards, in any order
	Left      int64            `json:",omitempty"` // ms of its lease
	Line      []string         `json:",omitempty"` // those who wait afterwards, the first one first
}

// Called notes a call and its reply. The entry may have more to say.
func (e *Entry) Called(c wire.Call, r wire.Reply) {
	if c.Script.Announces && c.Args.Publish == "" {
		c.Args.Publish = wire.PublishPlain // the transport fills it in
	}
	e.Script = fmt.Sprint(c.Script.Digest)
	e.Keys, e.Argv = texts(c.Keys), texts(c.AppendArgv(nil))
	if e.Reply = r.List; r.List == nil {
		e.Reply = []int64{r.N}
	}
}

func texts(all []any) []string {
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = fmt.Sprint(v)
	}
	return out
}

// Write writes an entry.
func (e *Entry) Write(to io.Writer) error { return json.NewEncoder(to).Encode(e) }
