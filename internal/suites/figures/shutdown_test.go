package figures

import (
	"testing"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestFigureShutdown measures how long after the end of the last section a shutdown is over, and how long after that another
// process has all locks.
func TestFigureShutdown(t *testing.T) {
	figure(t)
	server := redistest.Start(t)
	rdb := server.Client(t)
	for range 5 {
		told, late := testkit.WindUp(t, rdb, 40)
		t.Logf("40 holders in Do: %d told, Shutdown returned %v after the slowest", told, late)
	}
	client := testkit.NewClient(t, rdb)
	for range 5 {
		shutdown, taken := testkit.Deploy(t, server.Addr, client)
		t.Logf("%d locks, SIGTERM: Shutdown returned %v after the last section, another process had all after %v",
			testkit.Deployed, shutdown, taken)
	}
}
