package driver

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDeadlines checks that the contexts of commands end after the timeout, and not before.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	d := Deadlines{Timeout: 80 * time.Millisecond}
	began := time.Now()
	one := d.Bound(t.Context(), began)
	other := d.Bound(t.Context(), began)
	require.True(t, one.Done() == other.Done(), "they share a timer")
	<-one.Done()
	require.GreaterOrEqual(t, time.Since(began), d.Timeout)
	require.ErrorIs(t, one.Err(), context.DeadlineExceeded)
	later := d.Bound(t.Context(), time.Now())
	require.False(t, later.Done() == one.Done(), "a later command has a later end")
	ending, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	require.True(t, d.Within(ending, began) == ending)
	require.False(t, d.Within(t.Context(), began) == t.Context())
}
