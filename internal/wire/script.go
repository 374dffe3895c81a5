// Package wire has everything of rlock that Redisson can see: the kinds of lock, the names of their keys and channels, the
// scripts, and their calls and replies. It does no I/O.
package wire

import "github.com/go-rlock/rlock/internal/lua"

// All scripts of a lock share one calling convention, so that one algorithm can run any of them. KEYS are the lock, then
// the other keys that the kind needs. Where a holder may be created or retired, the tombstones of the lock come last. A
// script gets only the keys that it touches, because a cluster refuses a script with several keys while it moves their
// slot. ARGV are the fields of [Args], in order.
//
// Renewals differ, because they are about many locks. An acquire replies the token, or 0 if its kind has none. A refused
// acquire replies -1 less the milliseconds until another attempt may help.
//
// Every script is safe to run twice, late, or out of order: it changes only its own holder's state, and creates a holder
// only if that holder's number has no tombstone. The exception is an unlock by force.
var (
	lockAcquire  = newScript(Script{Keys: 1, Argv: 7}, lua.LockAcquire)
	lockCount    = newScript(Script{Keys: 1, Argv: 6}, lua.LockCount)
	lockRelease  = newScript(Script{Keys: 1, Argv: 6, Announces: Telling}, lua.LockRelease)
	lockRenew    = newScript(Script{Keys: 1}, lua.LockRenew)
	lockForce    = newScript(Script{Keys: 1, Argv: 7, Announces: Telling}, lua.LockForce)
	lockInspect  = newScript(Script{Keys: 1, Argv: 1, Numbers: 3, Reads: true}, lua.LockInspect)
	lockHandOff  = newScript(Script{Keys: 2, Argv: 7, Announces: Telling}, lua.LockTicket)
	lockHandOver = newScript(Script{Keys: 1, Argv: 4}, lua.LockHandover)

	fencedAcquire  = newScript(Script{Keys: 2, Argv: 7}, lua.FencedLockAcquire)
	fencedHandOff  = newScript(Script{Keys: 3, Argv: 7, Announces: Telling}, lua.FencedLockTicket)
	fencedHandOver = newScript(Script{Keys: 2, Argv: 4}, lua.FencedLockHandover)

	// A fair acquire announces: it notifies the waiter that is first from now on. The scripts get all keys, so that they can
	// give the lock to any waiter. The plain ones never draw a token, as those of the line.
	fairAcquire = newScript(Script{Keys: 4, Argv: 9, Numbers: 4, Short: true, Refuses: true, Announces: Judging}, lua.FairAcquire)
	fairRelease = newScript(Script{Keys: 4, Argv: 6, Numbers: 5, Short: true, Announces: Judging}, lua.FairRelease)
	fairForce   = newScript(Script{Keys: 4, Argv: 7, Numbers: 2, Short: true, Announces: Judging}, lua.FairForce)
	fairPark    = newScript(Script{Keys: 4, Argv: 6, Announces: Judging}, lua.FairPark)
	fairHandOff = newScript(Script{Keys: 4, Argv: 7, Announces: Judging}, lua.FairTicket)

	fencedFairAcquire = newScript(Script{Keys: 5, Argv: 9, Numbers: 4, Short: true, Refuses: true, Announces: Judging}, lua.FencedFairAcquire)
	fencedFairRelease = newScript(Script{Keys: 5, Argv: 6, Numbers: 5, Short: true, Announces: Judging}, lua.FencedFairRelease)
	fencedFairForce   = newScript(Script{Keys: 5, Argv: 7, Numbers: 2, Short: true, Announces: Judging}, lua.FencedFairForce)
	fencedFairHandOff = newScript(Script{Keys: 5, Argv: 7, Announces: Judging}, lua.FencedFairTicket)

	readAcquire = newScript(Script{Keys: 2, Argv: 7}, lua.ReadAcquire)
	readCount   = newScript(Script{Keys: 2, Argv: 6}, lua.LockCount)
	readRelease = newScript(Script{Keys: 2, Argv: 6, Announces: Telling}, lua.ReadRelease)
	readRenew   = newScript(Script{Keys: 2}, lua.ReadRenew)
	readInspect = newScript(Script{Keys: 2, Argv: 1, Numbers: 3, Reads: true}, lua.ReadInspect)

	writeInspect = newScript(Script{Keys: 1, Argv: 1, Numbers: 3, Reads: true}, lua.WriteInspect)

	// A script of the line gets all keys, so that it can give the lock to any waiter of the line. Without the prelude for
	// tokens it never draws one, because it gets no key for them.
	plainLine  = newLine(3, lua.LineAcquire, lua.LineRelease, lua.LineForce, lua.LinePump)
	fencedLine = newLine(4, lua.FencedLineAcquire, lua.FencedLineRelease, lua.FencedLineForce, lua.FencedLinePump)

	// Readers stand in no line, but a writer who does may be next.
	readLine = &Line{
		Release: newScript(Script{Keys: 3, Argv: 5, Numbers: 6, Short: true, Announces: Telling}, lua.LineReadRelease),
		Yield:   newScript(Script{Keys: 3, Argv: 7, Announces: Telling}, lua.LineReadAcquire),
		Force:   plainLine.Force, Pump: plainLine.Pump,
	}
)

// The scripts of calls that count once, however often they are sent. The number of the call takes the place of a holder's
// number, and its marks are the tombstones of the same key: see once_prelude.lua.
var (
	onceMark = newScript(Script{Keys: 1, Argv: 3}, lua.OnceMark)

	latchSet       = newScript(Script{Keys: 2, Argv: 7, Announces: Telling, Forgets: true}, lua.LatchSet)
	latchCountDown = newScript(Script{Keys: 2, Argv: 7, Announces: Telling, Forgets: true}, lua.LatchCountdown)
	latchDelete    = newScript(Script{Keys: 2, Argv: 7, Announces: Telling, Forgets: true}, lua.LatchDelete)
	latchCount     = newScript(Script{Keys: 1, Reads: true}, lua.LatchCount)

	semaphoreSetUp    = newScript(Script{Keys: 3, Argv: 7, Announces: Telling, Forgets: true}, lua.SemaphoreSetUp)
	semaphoreChange   = newScript(Script{Keys: 3, Argv: 7, Announces: Telling, Forgets: true}, lua.SemaphoreChange)
	semaphoreGiveBack = newScript(Script{Keys: 3, Argv: 7, Announces: Telling, Forgets: true}, lua.SemaphoreGiveBack)
	semaphoreDelete   = newScript(Script{Keys: 3, Argv: 7, Forgets: true}, lua.SemaphoreDelete)
	semaphoreCount    = newScript(Script{Keys: 2, Numbers: 3, Reads: true}, lua.SemaphoreCount)
	plainDrain        = newScript(Script{Keys: 2, Argv: 7, Forgets: true}, lua.PlainDrain)
	plainAcquire      = newScript(Script{Keys: 2, Argv: 7, Forgets: true}, lua.PlainAcquire)
	plainUndo         = newScript(Script{Keys: 2, Argv: 6, Announces: Telling}, lua.PlainUndo)
)

// Others has the scripts that belong to no kind of lock, by name, for tests.
var Others = map[string]*Script{
	"mark": onceMark, "set count": latchSet, "count down": latchCountDown, "delete latch": latchDelete, "latch count": latchCount,
	"set up": semaphoreSetUp, "change": semaphoreChange, "give back": semaphoreGiveBack, "delete semaphore": semaphoreDelete,
	"permits":               semaphoreCount,
	"acquire plain permits": plainAcquire, "undo plain permits": plainUndo, "drain": plainDrain,
}

func newLine(keys int, acquire, release, force, pump string) *Line {
	script := func(argv, numbers int, usual any, file string) *Script {
		return newScript(Script{Keys: keys - 1, Argv: argv, Numbers: numbers, Short: numbers > 0, Usual: usual, Announces: Telling}, file)
	}
	l := &Line{
		Acquire: script(4, 4, common, acquire), Release: script(7, 6, empty, release), Force: script(7, 2, nil, force), Pump: script(5, 0, nil, pump),
	}
	l.Acquire.Refuses = true
	return l
}

// Announcing is whether a script publishes that the lock is free.
type Announcing uint8

// The ways to announce.
const (
	Untold  Announcing = iota // it does not
	Telling                   // it does
	Judging                   // it does, and takes waiters for dead that its messages do not reach
)

// Script is a Lua script, and how it is called.
type Script struct {
	Source    string
	Digest    any  // SHA-1 of the source in hex, by which EVALSHA runs it: a string, as it is sent
	Keys      int  // how many keys it touches for each lock, besides the tombstones; of a call that counts once, all
	Argv      int  // how many of [Args] it gets at most; zero for a renewal, which has arguments of its own
	Usual     any  // what Args.Extra mostly is, if the script gets no arguments that are as usual, except the first ones
	Numbers   int  // how many numbers it replies; zero means a single one, not in a list
	Short     bool // whether it may reply a single number instead
	Refuses   bool // whether a list is the reply of a refusal, so that its first number is negative
	Announces Announcing
	Forgets   bool // whether it removes the marks of earlier calls that count once; Args.Other has their numbers
	Reads     bool // whether it changes nothing, so that a replica can run it
	Gathers   bool // whether a call of it may go out in one pipeline with those of others, although its arguments are its own
}

func newScript(s Script, file string) *Script {
	s.Digest, s.Source = lua.Open(file)
	return &s
}

// Of returns the keys of the script, among all keys of a lock, of which the last one has the tombstones.
func (s *Script) Of(keys []any) []any { return keys[:min(s.Keys, len(keys)-1)] }

// WithTombstones returns the keys of the script and the tombstones, among all keys of a lock.
func (s *Script) WithTombstones(keys []any) []any {
	if len(keys) == s.Keys+1 {
		return keys
	}
	all := make([]any, 0, s.Keys+1)
	return append(append(all, s.Of(keys)...), keys[len(keys)-1])
}
