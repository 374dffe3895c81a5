package wire

import (
	"time"

	"github.com/go-rlock/rlock/internal/lua"
)

// Kind describes one kind of lock: all values in which it differs from the others. Each kind is one literal of it.
type Kind struct {
	Family Family
	Side   Side

	Acquire, Count, Release, Renew, Force, Inspect *Script
	HandOver                                       *Script // nil means that it is not handed over within a process

	// Park keeps it taken after its release, and HandOff hands it to another process. Nil means that it cannot be.
	Park, HandOff *Script

	// Line has the scripts by which the kind stands in the line. Nil means that it never does.
	Line   *Line
	Silent any // says to them that the kind never stands there, and announces nothing; nil means that it does

	// Keys are the prefixes of the keys that the kind has besides the lock, some with a suffix after a star. A suffix without a
	// prefix ends a key that begins with the name.
	Keys []string
	// HoldKey ends the name of the key that each hold has of its own. Empty means that holds have none.
	HoldKey string
	// FieldSuffix follows <client id>:<number> in a holder field.
	FieldSuffix string
	// Channel is the prefix of the channel on which a release is announced. Empty means that releases are not announced, and
	// waiters poll.
	Channel string

	// FirstDelay and MaxDelay are the poll delays of waiters, unless the handle has others.
	FirstDelay, MaxDelay time.Duration

	// Queues means that waiters stand in a queue in Redis, each of which is notified alone, on a channel of its own.
	// The waiters of other kinds stand in the local queue of their process.
	Queues bool
	// Tokens means that each outermost acquisition draws a fencing token. A hand-over draws one, too.
	Tokens bool
	// Fenced is the same kind with tokens. Nil means that there is none.
	Fenced *Kind
	// Messages is how many messages announce one release. Zero means one.
	Messages uint64
	// Noun is what a value of the kind is, for errors. Empty means a lock.
	Noun string
	// NoUpgrade means that an owner that holds the other side of the name would wait for itself.
	NoUpgrade bool
	// Remnants means that a holder has several parts in Redis. If one is gone, the hold is lost, and a release removes the rest.
	Remnants bool
	// MaxPermits is how many permits one acquisition may have. Zero means that there are none, because it is a lock. Permits are
	// never re-entered: an owner that holds one takes another one like anybody else.
	MaxPermits int
}

// HasPermits reports whether permits are acquired, so that several owners may have some at a time.
func (k *Kind) HasPermits() bool { return k.MaxPermits > 0 }

// Line has the scripts of a kind whose releases give the lock to the first waiter of a line in Redis.
// A client that cannot use the line uses the other scripts of the kind. Without an Acquire, the kind's own waiters
// do not stand in the line.
// Yield is the acquire of those who do not stand in the line, and wait for those who do.
type Line struct{ Acquire, Yield, Release, Force, Pump *Script }

// Family is a set of kinds that exclude each other on one name. Locks of different families must not share a name.
type Family uint8

// The families.
const (
	PlainFamily Family = iota
	FairFamily
	RWFamily
	SemaphoreFamily
	PlainSemaphoreFamily

	Families = iota // how many there are
)

// Side distinguishes the grants that one owner may have of one name at the same time.
type Side uint8

// The sides of a name.
const (
	MainSide Side = iota // the only one, or the write side
	ReadSide             // the read side of a read-write lock
)

// Opposite returns the other side.
func (s Side) Opposite() Side { return MainSide + ReadSide - s }

// The kinds of lock.
var (
	Plain = &Kind{
		Family:   PlainFamily,
		Acquire:  lockAcquire,
		Count:    lockCount,
		Release:  lockRelease,
		Renew:    lockRenew,
		Force:    lockForce,
		Inspect:  lockInspect,
		HandOff:  lockHandOff,
		HandOver: lockHandOver,
		Fenced:   Fenced,
		Channel:  lua.LockChannel,
		Line:     plainLine,
	}

	Fenced = &Kind{
		Family:   PlainFamily,
		Acquire:  fencedAcquire,
		Count:    lockCount,
		Release:  lockRelease,
		Renew:    lockRenew,
		Force:    lockForce,
		Inspect:  lockInspect,
		HandOff:  fencedHandOff,
		HandOver: fencedHandOver,
		Tokens:   true,
		Keys:     []string{tokenKey},
		Channel:  lua.LockChannel,
		Line:     fencedLine,
	}

	Spin = &Kind{
		Family:     PlainFamily,
		Acquire:    lockAcquire,
		Count:      lockCount,
		Release:    lockRelease,
		Renew:      lockRenew,
		Force:      lockForce,
		Inspect:    lockInspect,
		HandOff:    lockHandOff,
		FirstDelay: time.Millisecond,
		MaxDelay:   128 * time.Millisecond,
		Line:       plainLine,
		Silent:     "-",
	}

	Fair = &Kind{
		Family:  FairFamily,
		Acquire: fairAcquire,
		Count:   lockCount,
		Release: fairRelease,
		Renew:   lockRenew,
		Force:   fairForce,
		Inspect: lockInspect,
		Park:    fairPark,
		HandOff: fairHandOff,
		Fenced:  FencedFair,
		Keys:    []string{"redisson_lock_queue", "redisson_lock_timeout", seatsKey},
		Channel: lua.LockChannel,
		Queues:  true,
	}

	FencedFair = &Kind{
		Family:  FairFamily,
		Acquire: fencedFairAcquire,
		Count:   lockCount,
		Release: fencedFairRelease,
		Renew:   lockRenew,
		Force:   fencedFairForce,
		Inspect: lockInspect,
		Park:    fairPark,
		HandOff: fencedFairHandOff,
		Tokens:  true,
		Keys:    []string{"redisson_lock_queue", "redisson_lock_timeout", seatsKey, tokenKey},
		Channel: lua.LockChannel,
		Queues:  true,
	}

	Read = &Kind{
		Family:   RWFamily,
		Side:     ReadSide,
		Acquire:  readAcquire,
		Count:    readCount,
		Release:  readRelease,
		Renew:    readRenew,
		Force:    lockForce,
		Inspect:  readInspect,
		HoldKey:  lua.HoldSuffix + "1",
		Channel:  lua.RWChannel,
		Line:     readLine,
		Remnants: true,
	}

	Write = &Kind{
		Family:      RWFamily,
		Side:        MainSide,
		Acquire:     lockAcquire,
		Count:       lockCount,
		Release:     lockRelease,
		Renew:       lockRenew,
		Force:       lockForce,
		Inspect:     writeInspect,
		HandOff:     lockHandOff,
		HandOver:    lockHandOver,
		Fenced:      FencedWrite,
		FieldSuffix: lua.WriteSuffix,
		Channel:     lua.RWChannel,
		NoUpgrade:   true,
		Messages:    2,
		Line:        plainLine,
	}

	FencedWrite = &Kind{
		Family:      RWFamily,
		Side:        MainSide,
		Acquire:     fencedAcquire,
		Count:       lockCount,
		Release:     lockRelease,
		Renew:       lockRenew,
		Force:       lockForce,
		Inspect:     writeInspect,
		HandOff:     fencedHandOff,
		HandOver:    fencedHandOver,
		Tokens:      true,
		Keys:        []string{tokenKey},
		FieldSuffix: lua.WriteSuffix,
		Channel:     lua.RWChannel,
		NoUpgrade:   true,
		Messages:    2,
		Line:        fencedLine,
	}
)

// Permit is the kind of the permits of a semaphore, which have leases. Its scripts are in internal/core.
var Permit = &Kind{
	Noun:       "semaphore",
	Family:     SemaphoreFamily,
	Side:       ReadSide,
	Keys:       []string{"*" + leases},
	Channel:    lua.SemaphoreChannel,
	MaxPermits: 1000,
}

// PlainPermit is the kind of a plain semaphore. Nothing in Redis says who has its permits, so it has none of the scripts of a lock.
var PlainPermit = &Kind{
	Noun:       "plain semaphore",
	Family:     PlainSemaphoreFamily,
	Side:       ReadSide,
	Keys:       []string{"*" + leases},
	Channel:    lua.SemaphoreChannel,
	MaxPermits: MaxPermits,
}

// leases ends the name of the key that has the leases of a semaphore's permits.
const leases = "timeout"

// tokenKey is the prefix of the key that has the latest fencing token of a name, as in Redisson's fenced lock. It comes last
// in Keys, because only acquires and hand-overs get it.
const tokenKey = "redisson_lock_token"

// seatsKey is the prefix, with a suffix, of the key that says which waiter of rlock has which seat in the queue of a fair lock.
const seatsKey = lua.LatchKey + "*" + lua.WaitersSuffix

// Name returns the name of the kind in [Kinds], or the noun of what is no lock. Log lines, observers, metrics and the command rlock call
// it by this name, and by no other.
func (k *Kind) Name() string {
	if k.Noun != "" {
		return k.Noun
	}
	return kindNames[k] // an observer is told it with each acquisition
}

// Kinds has every kind by its name, for log lines and tests.
var Kinds = map[string]*Kind{
	"lock": Plain, "fenced": Fenced, "spin": Spin, "fair": Fair, "fenced fair": FencedFair,
	"read": Read, "write": Write, "fenced write": FencedWrite,
}

// kindNames is Kinds the other way round.
var kindNames = func() map[*Kind]string {
	names := make(map[*Kind]string, len(Kinds))
	for name, k := range Kinds {
		names[k] = name
	}
	return names
}()
