package lease

import (
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/table"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testConfig has the root's defaults.
func testConfig() Config {
	return Config{
		Table: table.Config{
			ClientID:        "00000000-0000-4000-8000-000000000001",
			WatchdogTimeout: 30 * time.Second, CommandTimeout: 5 * time.Second, PollInterval: 5 * time.Second,
			FairWait: 5 * time.Minute, BatchSize: 200, HandOvers: 16, HandOverTime: 5 * time.Millisecond,
			Lazy: true, StandBack: 2 * time.Millisecond,
		},
		Logger: slog.Default,
	}
}
