//go:build !unix

package child

import "context"

// Run returns ErrUnsupported.
func Run(context.Context, Program) (int, error) { return 0, ErrUnsupported }
