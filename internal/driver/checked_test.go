package driver

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// panicking is a driver under whose commands a hook panics.
type panicking struct{ Driver }

func (panicking) Info() Info                                            { return Info{} }
func (panicking) Run(context.Context, Node, wire.Call) wire.Reply       { panic("a bug in a hook") }
func (panicking) Raw(context.Context, Node, ...any) (any, *fault.Error) { panic("a bug in a hook") }

func (panicking) Pipe(context.Context, Node, []wire.Call, *Acks, []wire.Reply) {
	panic("a bug in a hook")
}

// A panic becomes the error of its command, which may have been sent.
func TestAHookThatPanics(t *testing.T) {
	t.Parallel()
	d, calls, out := Checked(panicking{}), make([]wire.Call, 2), make([]wire.Reply, 2)
	d.Pipe(t.Context(), nil, calls, nil, out)
	_, raw := d.Raw(t.Context(), nil, "ROLE")
	run := d.Run(t.Context(), nil, wire.Call{})
	for _, err := range []*fault.Error{run.Err, out[0].Err, out[1].Err, raw} {
		require.ErrorContains(t, err, "a bug in a hook")
		require.True(t, err.InDoubt())
		require.False(t, err.Unavailable())
	}
	require.False(t, run.Acquired() || out[1].Acquired())
}
