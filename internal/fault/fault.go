// Package fault has the classes of command failures, and the errors that callers of rlock can match. A failure is classified
// once, where it happens.
package fault

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// Fate is the outcome of a command that failed.
type Fate uint8

// The fates of a command. Only InDoubt and Left mean that the command may still be executed later.
const (
	// Rejected means that the server answered with an error, and that the script changed nothing.
	Rejected Fate = iota
	// Partial means that the server answered with an error, and that the script may have changed something before.
	Partial
	// Unreplicated means that the script ran and its number is valid, but that too few replicas acknowledged it.
	Unreplicated
	// NotSent means that the command never left this process.
	NotSent
	// InDoubt means that the command may have been executed, or may still be, and that no reply will come.
	InDoubt
	// Left means that the caller stopped waiting. The reply goes to the call's Late, if the call has one.
	Left
)

// Error is a command's failure, with everything on which the next step depends. It is made by the driver, which knows its
// client library, or by the transport.
type Error struct {
	Fate Fate
	// Code is the first word of the server's error after any ERR, such as WRONGTYPE, NOPERM, or unknown for an unknown
	// command. If a script passed on the error of a command, it is the first word of that error. It is empty if no server
	// answered.
	Code string
	// Transient means that the same command may succeed later.
	Transient bool
	// Stale means that the known topology may be out of date.
	Stale bool
	// Err is the client library's error, or the reason why the caller left.
	Err error

	flags string // of rlock doctor, which then looks for the right that is missing
}

// Error returns the text of the underlying error, without the arguments of a command that the server does not know: they may be a holder or
// a password. Of a right that is missing and of a login it says first what to look at, because Redis speaks of neither a place nor
// a remedy.
func (e *Error) Error() string {
	switch {
	case e.Fate == Unreplicated: // Err says so of what was refused
	case e.Denied():
		return fmt.Sprintf("the user of Redis lacks a right (see SECURITY.md, or run: rlock doctor%s): %v", e.flags, e.Err)
	case e.LoginRefused():
		return fmt.Sprintf("Redis refuses the login of the redis client (look at its user name and password): %v", e.Err)
	}
	text, _, _ := strings.Cut(e.Err.Error(), ", with args beginning with")
	return text
}

// Needs returns the error with flags of rlock doctor, without which that may not look for the right that is missing. The first flags stay.
func (e *Error) Needs(flags ...string) *Error {
	if !e.Denied() || e.flags != "" {
		return e
	}
	needs := *e
	needs.flags = " " + strings.Join(flags, " ")
	return &needs
}

// Of returns the error of a call for a lock of a kind that has a name, and a key in Redis.
func (e *Error) Of(kind, name, key string) *Error {
	flags := []string{"--kinds " + word(kind)}
	if prefix, ok := strings.CutSuffix(key, name); ok && prefix != "" {
		flags = append(flags, "--key-prefix "+word(prefix))
	}
	return e.Needs(flags...)
}

// word returns a text as one word of a shell.
func word(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.:/", r)
	}) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// Unavailable reports whether the failure says nothing about the lock, and may be over later: no reply, a network error, no
// free connection, a temporary state of the server, or too few replicas. It reports false for nil.
func (e *Error) Unavailable() bool { return e != nil && (e.Transient || e.Fate == Unreplicated) }

// Is makes such a failure match ErrUnavailable.
func (e *Error) Is(target error) bool { return target == ErrUnavailable && e.Unavailable() }

// InDoubt reports whether the command may have been executed or may still be. It reports false for nil.
func (e *Error) InDoubt() bool { return e != nil && (e.Fate == InDoubt || e.Fate == Left) }

// Replied reports whether a server answered the command, so that the command is settled. It reports false for nil.
func (e *Error) Replied() bool {
	return e != nil && (e.Fate == Rejected || e.Fate == Partial || e.Fate == Unreplicated)
}

// WrongType reports whether a key holds something that is not a lock. It reports false for nil.
func (e *Error) WrongType() bool { return e != nil && e.Code == "WRONGTYPE" }

// Denied reports whether the server's user lacks a right that the command needs. It reports false for nil.
func (e *Error) Denied() bool { return e != nil && e.Code == "NOPERM" }

// LoginRefused reports whether the server does not accept the redis client's user name and password, or wants them. It reports false
// for nil.
func (e *Error) LoginRefused() bool { return e != nil && (e.Code == "NOAUTH" || e.Code == "WRONGPASS") }

// OfServer reports whether a server's error is about the server or its user, and not about what a key has. It reports false for nil.
func (e *Error) OfServer() bool {
	return e != nil && e.Code != "" && !e.WrongType() && (strings.EqualFold(e.Code, "unknown") || e.Code == strings.ToUpper(e.Code))
}

// TimedOut reports whether the caller left because the command timeout was over. It reports false for nil.
func (e *Error) TimedOut() bool { return e != nil && e.Fate == Left && errors.Is(e.Err, ErrNoAnswer) }
