// Below this directory are the example programs. Each uses an embedded Redis, or the one at REDIS_URL.
package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestExamples runs every example. An example fails if its lock fails.
func TestExamples(t *testing.T) {
	t.Parallel()
	mains, err := filepath.Glob("*/main.go")
	if err != nil || len(mains) == 0 {
		t.Fatal("no examples", err)
	}
	for _, main := range mains {
		name := filepath.Dir(main)
		if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
			continue // a module of its own, with a test of its own
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // most of it to compile
			defer cancel()
			cmd := exec.CommandContext(ctx, "go", "run", "./"+name)
			cmd.Env = append(os.Environ(), "REDIS_URL=")
			out, err := cmd.CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Error(err)
			}
		})
	}
}
