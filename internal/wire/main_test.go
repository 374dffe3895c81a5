package wire_test

import (
	"testing"

	"github.com/go-rlock/rlock/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
