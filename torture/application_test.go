package torture

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheEndOfAProcessIsReported checks that a process that ends by itself is a fault, and one that is made to end is none.
func TestTheEndOfAProcessIsReported(t *testing.T) {
	t.Parallel()
	a := newArena(t, Scene{Topology: topologySingle, Mix: mix()})
	for range 3 {
		a.spawn(formPlain, 1)
	}
	for _, c := range a.children {
		a.eventually("the process has started", func() bool { return len(a.collector.clientsOf(c.site.Name)) > 0 })
	}
	a.children[0].kill()
	a.children[1].stop()
	require.Empty(t, a.collector.found)
	a.children[2].signal(syscall.SIGTERM)
	<-a.children[2].ended
	require.Len(t, a.collector.found, 1)
	require.True(t, strings.HasPrefix(a.collector.found[0], a.children[2].site.Name+": the process ended by itself"))
}
