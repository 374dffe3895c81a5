package task_test

import (
	"sync"
	"testing"

	"github.com/go-rlock/rlock/internal/task"
)

// A worker may log what it has found while its client is closing.
func TestNoticesMayComeWhileTheGroupStops(t *testing.T) {
	t.Parallel()
	for range 1000 {
		g := task.New()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { g.Run(task.Func(func() {})) })
		}
		all.Go(func() {
			g.Close()
			g.Wait(t.Context())
			g.Stop(t.Context())
		})
		all.Wait()
	}
}
