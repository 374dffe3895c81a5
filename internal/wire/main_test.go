package wire_test

import (
	"testing"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

func TestMain(m *testing.M) {
	redistest.Leisurely = true
	testkit.Main(m)
}
