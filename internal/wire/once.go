package wire

import "time"

// MarkMemory is for how long Redis remembers the number of a call that counts once, at least. It is as long as a tombstone lives at
// least: no command stays on its way for longer.
const MarkMemory = 2 * time.Minute

// MarkCall returns the call that marks a number as used, given the key of the marks, which are the tombstones of a name.
func MarkCall(marks any, number int64) Call {
	return Call{Script: onceMark, Keys: []any{marks}, Args: onceArgs(number)}
}

// onceArgs are the arguments that all calls have that count once.
func onceArgs(number int64) Args { return Args{Millis: Millis(MarkMemory), Number: number} }
