// Package snippets_test is not beside rlockrueidis, because of that directory valkey-go has a copy, and it has no code in the documents.
package snippets_test

import (
	"testing"

	"github.com/go-rlock/rlock/internal/testkit/snippets"
)

// TestSnippets compiles and runs the code in the documents that needs this module.
func TestSnippets(t *testing.T) {
	t.Parallel()
	snippets.Check(t, "rlockrueidis")
}
