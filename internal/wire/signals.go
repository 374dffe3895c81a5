package wire

import (
	"strings"

	"github.com/go-rlock/rlock/internal/lua"
)

// The messages that are no more than a reason to try again, or to leave that to others.
const (
	Free       = lua.MessageFree
	WriterLeft = lua.MessageWriterLeft
	Ask        = lua.MessageAsk
	Own        = lua.MessageOwn
)

// latchChannel is the prefix of Redisson's channel of a count-down latch. The name of a latch is always in braces.
const latchChannel = "redisson_countdownlatch__channel__"

// Signals reports whether every message on a channel is a reason to try again, whatever its payload is: that is a number on
// the channels of semaphores and count-down latches. The channels of one client's own waiters, which end in its id, are
// none of these: the messages there are those of the line.
func Signals(channel, clientID string) bool {
	if strings.HasPrefix(channel, latchChannel+"{") {
		return true
	}
	return strings.HasPrefix(channel, lua.SemaphoreChannel+":") && (clientID == "" || !strings.HasSuffix(strings.TrimSuffix(channel, braced), ":"+clientID))
}
