// Package figures measures what the documents quote, counts commands, and looks for leaks. The tests that count commands
// always run. The figures measure time; only `make figures` runs them.
package figures

import (
	"testing"

	"github.com/go-rlock/rlock/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
