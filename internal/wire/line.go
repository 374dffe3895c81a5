package wire

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/lua"
)

// Woken is the term of a waiter of the line to which no script gives the lock: it is woken instead, and asks. The others are constants of lua.
const (
	Woken     time.Duration = -1
	FirstTerm               = lua.FirstTerm * time.Millisecond
	Watching                = lua.Watching
)

// Standing is what the member of a waiter of the line says besides its field. The zero Standing never stood in the line.
type Standing struct {
	Term  time.Duration // of the lease that a script gives to it, or [Woken]
	Token bool          // whether it needs a fencing token
}

// text returns the standing as it ends a member.
func (s Standing) text() any {
	switch ms := Millis(s.Term); {
	case s.Term == 0:
		return empty
	case ms == 0 && !s.Token:
		return woken
	case ms == lua.FirstTerm && s.Token:
		return commonWithToken
	case ms == lua.FirstTerm:
		return common
	case s.Token:
		return strconv.FormatInt(ms, 10) + lua.TokenSuffix
	default:
		return strconv.FormatInt(ms, 10)
	}
}

// The most common standings as they are sent, boxed once.
var (
	common, commonWithToken any = strconv.Itoa(lua.FirstTerm), strconv.Itoa(lua.FirstTerm) + lua.TokenSuffix

	woken any = "0"
)

// Next is the next holder within the process of the holder that leaves.
type Next struct {
	Holder *Holder
	Lease  time.Duration // if it gets the lock at once
	Term   time.Duration // if it stands in the line
}

// Stands reports whether waiters of the kind stand in the line. Readers do not: a message on Redisson's channel wakes them all.
func (l *Line) Stands() bool { return l != nil && l.Acquire != nil }

// Stand returns the call that makes it the holder, or else puts it in the line, with the term of the lease that a script may
// give to it there, or [Woken]. A term of zero means that it does not wait.
func (h *Holder) Stand(n *Names, lease, term time.Duration) Call {
	return Call{Script: h.kind.Line.Acquire, Keys: n.LineKeys, Args: h.args(lease, n.base, Standing{Term: term}.text())}
}

// Yield returns the call that makes it a holder unless a writer stands in the line that came before it. waited is for how long it has
// waited, negative if it does not wait, and writer is as for [Holder.Acquire].
func (h *Holder) Yield(n *Names, lease, waited time.Duration, writer any) Call {
	c := Call{Script: h.kind.Line.Yield, Keys: h.lineKeys(n), Args: h.args(lease, n.base, waited.Microseconds())}
	c.Args.Other = writer
	return c
}

// Give returns the call that frees the lock, or makes it leave the line, and gives the lock to whoever is next. A tombstone of
// that lifetime is written for its number; zero means none. term is the one with which it stood in the line, or [Woken]; zero
// means that it never did. next comes behind the waiters of the line; nil means that there is none. A next holder that needs a token
// is left out if this one needs none, because the script cannot draw it.
func (h *Holder) Give(n *Names, tombstone, term time.Duration, next *Next) Call {
	c := Call{Script: h.kind.Line.Release, Keys: n.LineKeys, Args: h.args(tombstone, n.base, Standing{term, h.kind.Tokens}.text())}
	if h.kind.Silent != nil {
		c.Args.Extra = h.kind.Silent
	}
	if h.own != nil {
		c.Keys = h.lineKeys(n)
	}
	if next != nil && (h.kind.Tokens || !next.Holder.kind.Tokens) {
		c.Args.Other = next.Holder.member(next.Term)
		c.Args.NextMillis = Millis(next.Lease)
	} else if h.kind.Line == plainLine && tombstone == 0 { // it touches no tombstones
		c.Keys = c.Keys[:2]
	}
	return c
}

// lineKeys returns the keys of the line with the key that is for this holder alone.
func (h *Holder) lineKeys(n *Names) []any {
	own, last := *h.own, len(n.LineKeys)-1
	return slices.Insert(slices.Clone(n.LineKeys), last, own[len(own)-2])
}

// member returns the member of the line that stands for the holder.
func (h *Holder) member(term time.Duration) any {
	field, _ := h.Field.(string)
	standing, _ := Standing{term, h.kind.Tokens}.text().(string)
	return field + "|" + standing
}

// PumpCall returns the call that gives a free lock to the first waiter of the line. Waiters of the client but are not asked to watch.
func (k *Kind) PumpCall(n *Names, but string) Call {
	return Call{Script: k.Line.Pump, Keys: n.LineKeys, Args: Args{Holder: but, Channel: n.base}}
}

// Position is a place in the line.
type Position struct {
	At    int64 // when the attempt was refused, in µs of Redis
	Watch bool  // whether the process is asked to watch Redisson's channel
	Ahead int64 // how many stand before it; -1 means that it does not stand in the line
	// Heard and Unheard say that the server knows of somebody, or of nobody, who listens to the channel on which this waiter is told
	// that it has the lock. If neither is set, nobody looked.
	Heard, Unheard bool
	Missed         bool // it stood in the queue of a fair lock before, and did not any more
}

// Position returns, from the reply of a refused [Holder.Stand], the place in the line. It reports false if the script did not get
// that far.
func (r *Reply) Position() (Position, bool) {
	if len(r.List) != 4 {
		return Position{Ahead: -1}, false
	}
	at, bits, ahead := r.List[1], r.List[2], r.List[3]
	return Position{
		At: at, Ahead: ahead, Watch: bits&lua.BitWatch != 0, Heard: bits&lua.BitHeard != 0, Unheard: bits&lua.BitUnheard != 0,
		Missed: bits&lua.BitMissed != 0,
	}, true
}

// Given is what became of a lock that a [Holder.Give] was about.
type Given struct {
	Freed  bool   // whether it was the holder
	At     int64  // when, in µs of Redis; zero means that nobody else was concerned
	What   What   // who has the lock now
	Token  uint64 // of the next holder, if it has the lock
	Watch  bool   // whether the process is asked to watch Redisson's channel
	Others int64  // how many listen that know of no line
}

// What is who gets a lock. A script of rlock replies no other number than these.
type What int64

// Who gets a lock.
const (
	ToNobody What = iota // or it is not known
	ToWaiter             // of the line; the next holder, if there is one, stands there now
	ToNext               // the next holder of the process
	ToPublic             // anybody, for a moment; the next holder stands in the line now
)

// Gave returns, from the reply of a [Holder.Give], what became of the lock.
func (r *Reply) Gave() Given {
	if l := r.List; len(l) == 6 {
		return Given{Freed: l[0] == 1, At: l[1], What: What(l[2]), Token: uint64(l[3]), Watch: l[4] != 0, Others: l[5]}
	}
	return Given{Freed: r.N == 1}
}

// Message is a message to the waiters of one client.
type Message struct {
	Subject Subject
	Number  int64         // of the waiter that has the lock now, or is next
	At      int64         // since when, in µs of Redis
	Term    time.Duration // of its lease, or that of the holder before it
	Token   uint64        // zero means none
}

// Subject distinguishes the messages to the waiters of one client.
type Subject uint8

// The sorts of message.
const (
	Granted  Subject = iota + 1 // a waiter has the lock
	Watch                       // if somebody still waits here, watch Redisson's channel
	AskAgain                    // the first waiter could have the lock, but must ask for it
	EndsSoon                    // somebody else has the lock now, with a short lease; this waiter is next
)

// ParseMessage returns the message of a payload. It reports false for one that it does not know.
func ParseMessage(payload string) (Message, bool) {
	switch payload {
	case lua.MessageWatch:
		return Message{Subject: Watch}, true
	case lua.MessageAsk:
		return Message{Subject: AskAgain}, true
	}
	if rest, ok := strings.CutPrefix(payload, lua.MessageLease+" "); ok {
		number, ms, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseInt(number, 10, 64)
		term, err2 := strconv.ParseUint(ms, 10, 32)
		if err != nil || err2 != nil || n < 0 {
			return Message{}, false
		}
		return Message{Subject: EndsSoon, Number: n, Term: time.Duration(term) * time.Millisecond}, true
	}
	rest, ok := strings.CutPrefix(payload, lua.MessageGranted+" ")
	var numbers [4]int64
	for i := range numbers {
		var word string
		word, rest, _ = strings.Cut(rest, " ")
		n, err := strconv.ParseInt(word, 10, 64)
		ok = ok && err == nil && n >= 0
		numbers[i] = n
	}
	if !ok || rest != "" || numbers[2] > int64(maxTerm/time.Millisecond) {
		return Message{}, false
	}
	return Message{
		Subject: Granted, Number: numbers[0], At: numbers[1],
		Term: time.Duration(numbers[2]) * time.Millisecond, Token: uint64(numbers[3]),
	}, true
}

// maxTerm is the longest duration.
const maxTerm = time.Duration(1<<63 - 1)
