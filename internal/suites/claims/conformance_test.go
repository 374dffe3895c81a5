package claims

import (
	"testing"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
	"github.com/go-rlock/rlock/internal/testkit/conform"
	"github.com/go-rlock/rlock/internal/testkit/tune"
)

// TestConformance runs every claim for every kind of lock on a real server, as users with exactly the rights that SECURITY.md
// requires. TestSentinel and TestCluster do the same for their topologies, and lock_test.go beside the library runs the claims
// on the embedded server.
func TestConformance(t *testing.T) {
	t.Parallel()
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		redistest.OnRealServersToo(t, "every claim for every kind, as Redis itself keeps it")
		server := redistest.Start(t)
		conform.Run(t, server.Client(t), testkit.Limited(t, testkit.Admins(t, server), testkit.OpenAs(t, server)))
	})
}

// TestConformancePipelined runs every claim for every kind of lock with scripts that are all gathered.
func TestConformancePipelined(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	conform.Run(t, server.Client(t), testkit.Limited(t, testkit.Admins(t, server), testkit.OpenAs(t, server)), tune.Crowd(0))
}
