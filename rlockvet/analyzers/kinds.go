package analyzers

import (
	"go/ast"
)

// kind is what a handle is known to be.
type kind int

const (
	unknown   kind = iota
	exclusive      // a lock of one owner at a time, without tokens
	fenced         // a lock of one owner at a time, with tokens
	shared         // a read lock
	permits        // a semaphore
	group          // a multi lock or a red lock
)

// depth bounds how many variables are followed from one to the next.
const depth = 5

// kindOf returns the kind of a handle, or of the handles of a read-write lock, if everything that it is ever set to has that kind.
func (v *values) kindOf(e ast.Expr) kind { return v.kindWithin(e, depth) }

func (v *values) kindWithin(e ast.Expr, left int) kind {
	switch t := v.info.TypeOf(e); {
	case isNamed(t, library, "MultiLock"), isNamed(t, library, "RedLock"):
		return group
	case isNamed(t, library, "Semaphore"):
		return permits
	case left == 0 || !isNamed(t, library, "Lock") && !isNamed(t, library, "RWLock"):
		return unknown
	}
	if call, ok := ast.Unparen(e).(*ast.CallExpr); ok {
		return v.made(call, left)
	}
	all, ok := v.settings(e)
	if !ok {
		return unknown
	}
	found := v.kindWithin(all[0].value, left-1)
	for _, s := range all[1:] {
		if v.kindWithin(s.value, left-1) != found {
			return unknown
		}
	}
	return found
}

// made returns the kind of the handle that a call returns.
func (v *values) made(call *ast.CallExpr, left int) kind {
	receiver, name := method(v.info, call,
		"NewLock", "NewFairLock", "NewRWLock", "NewSpinLock", "Reader", "Writer")
	switch name {
	case "Reader":
		return shared
	case "Writer":
		return v.kindWithin(receiver, left-1)
	case "":
		return unknown
	}
	found := exclusive
	for _, arg := range call.Args[1:] {
		option, ok := ast.Unparen(arg).(*ast.CallExpr)
		switch {
		case !ok || !isFunction(v.info, option, "Fenced", "NonReentrant", "Backoff", "WriterPreference", "Lease", "RenewedLease", "Wait", "AtLeast"):
			return unknown
		case callee(v.info, option).Name() == "Fenced":
			found = fenced
		}
	}
	return found
}
