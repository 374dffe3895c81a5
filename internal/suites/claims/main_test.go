// Package claims tests what users rely on: the guarantees of every kind of lock, of groups, of the watchdog and of options.
package claims

import (
	"testing"

	"github.com/go-rlock/rlock/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
