// Package trouble tests what rlock does when something breaks: faults, topologies, failovers, refused rights, and a model of
// the whole library.
package trouble

import (
	"testing"

	"github.com/go-rlock/rlock/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
