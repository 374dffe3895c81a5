package wire

import (
	"strconv"
	"time"

	"github.com/go-rlock/rlock/internal/lua"
)

// Identity is what a client says about itself: texts, in the order of identityFields. An empty text is not written.
type Identity [5]string

// identityFields are the fields of the hash of a client.
var identityFields = [len(Identity{})]string{"service", "host", "version", "pid", "started"}

// PID returns the id of the process, or 0.
func (i *Identity) PID() int {
	pid, _ := strconv.Atoi(i[3])
	return pid
}

// Started returns when the process started, or the zero time.
func (i *Identity) Started() time.Time {
	millis, err := strconv.ParseInt(i[4], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(millis)
}

// ClientKey returns the name of the hash of a client, before it is mapped as the names of locks are, given its id or the text of the id
// of a permit. A permit tells the [Digits] of its client, and nothing else of it.
func ClientKey(id string) string { return "rlock_client:{" + Digits(id) + "}" }

// Digits returns the digits of a client's id that the ids of its permits begin with, given either. Any other text is its own digits.
func Digits(id string) string {
	switch {
	case len(id) == 36 && id[8] == '-':
		return id[:8] + id[9:13] + id[32:]
	case len(id) == 2*idBytes:
		return id[:16]
	}
	return id
}

var _, clientWrite = lua.Open(lua.ClientWrite)

// WriteCommand returns the command that writes the identity of a client.
func (i *Identity) WriteCommand(key string, lifetime time.Duration) []any {
	cmd := []any{"EVAL", clientWrite, int64(1), key, Millis(lifetime)}
	for n, field := range identityFields {
		if i[n] != "" {
			cmd = append(cmd, field, i[n])
		}
	}
	return cmd
}

// ReadCommand returns the command that reads an identity.
func ReadCommand(key string) []any {
	cmd := []any{"HMGET", key}
	for _, field := range identityFields {
		cmd = append(cmd, field)
	}
	return cmd
}

// ParseIdentity returns what a reply to the command of [ReadCommand] says.
func ParseIdentity(reply any) (i Identity) {
	list, _ := reply.([]any)
	for n := range min(len(list), len(i)) {
		i[n] = text(list[n])
	}
	return i
}
