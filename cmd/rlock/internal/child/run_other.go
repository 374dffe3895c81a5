//go:build !unix

package child

import "context"

// Run returns ErrUnsupported.
func Run(context.Context, Program) (int, error) { return 0, ErrUnsupported }

// Terminal reports whether a person runs this process on a terminal. It cannot tell on this system, and reports false.
func Terminal() bool { return false }
