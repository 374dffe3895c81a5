package core

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/go-rlock/rlock/internal/wire"
)

// Kind is what distinguishes the kinds of locks.
type Kind struct {
	acquire, release, renew func() *wire.Script

	channel string                  // begins the public channel
	third   func(tag string) string // the key beside the lock and its line
	// Shared means that several may hold it. A process then has one that asks for all of it until it is granted; of any other kind, until it is
	// released.
	Shared bool
}

// The kinds.
var (
	Plain = &Kind{
		acquire: acquire, release: release, renew: renew,
		channel: "redisson_lock__channel:", third: func(tag string) string { return "redisson_lock_token:" + tag },
	}
	// Permits are those of a semaphore that have leases.
	Permits = &Kind{
		acquire: permitsAcquire, release: permitsRelease, renew: permitsRenew,
		channel: "redisson_sc:", third: func(tag string) string { return tag + ":timeout" }, Shared: true,
	}
)

// Keys returns the keys and the public channel of a name. Those of rlock itself follow an injective rule: no two names share any of them.
func (k *Kind) Keys(key string) (keys []any, base string) {
	line, tag := "rlock:{"+key+"}", "{"+key+"}"
	if strings.Contains(key, "{") {
		line, tag = "rlock::"+key, key
	}
	return []any{key, line, k.third(tag)}, k.channel + tag
}

// KeyOf returns the name in Redis whose line has this key.
func KeyOf(line string) (key string, ok bool) {
	if key, ok = strings.CutPrefix(line, "rlock::"); ok {
		return key, strings.Contains(key, "{")
	}
	if key, ok = strings.CutPrefix(line, "rlock:{"); ok {
		key, ok = strings.CutSuffix(key, "}")
	}
	return key, ok && !strings.Contains(key, "{")
}

// acquireCall asks for the lock.
func (a *attempt) acquireCall(mode string, until int64) wire.Call {
	argv := []any{a.field, a.millis, until, mode, a.flags}
	if a.kind == Permits {
		argv = append(argv, a.base, a.stem())
	}
	return wire.Call{Script: a.kind.acquire(), Keys: a.keys, Argv: append(argv, a.client.cfg.Publish)}
}

// releaseCall frees what a number has, and takes its member out of the line if that is not empty. next is the next holder of this process, which may
// be made one until then.
func (a *attempt) releaseCall(member, next string, until int64) wire.Call {
	argv := []any{a.field, a.base, member, next, until, a.client.cfg.Publish}
	if a.kind == Permits {
		argv = []any{a.field, a.base, member, a.flags, a.stem(), a.client.cfg.Publish}
	}
	return wire.Call{Script: a.kind.release(), Keys: a.keys, Argv: argv}
}

// stem returns what the ids of the attempt's permits begin with: 8 bytes of its client, and 6 of its number.
func (a *attempt) stem() string {
	digits, _ := hex.DecodeString(wire.Digits(a.client.cfg.ID))
	return strings.TrimSuffix(string(binary.BigEndian.AppendUint64(digits, uint64(a.number)<<16)), "\x00\x00")
}

// renewed returns the key and the argument by which a renewal names what an attempt has.
func (a *attempt) renewed() (key, holder any) {
	if a.kind == Permits {
		return a.keys[2], fmt.Sprint(a.field, "|", a.flags)
	}
	return a.keys[0], a.field
}

// takenAt returns Redis's time in the reply to a question, and 0 if it has a token instead, which may be ahead of the clock.
func (a *attempt) takenAt(r *wire.Reply) int64 {
	switch {
	case r.List != nil:
		return r.List[1]
	case a.flags == "t":
		return 0
	}
	return r.N
}
