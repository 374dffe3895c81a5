package table

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit/transcript"
	"github.com/go-rlock/rlock/internal/wire"
)

var recordTo = flag.String("record", "", "write what the servers of TestTranscript reply to this file")

// TestTranscript notes what the servers of the model reply. The module simulation compares that with the replies of the real scripts.
func TestTranscript(t *testing.T) {
	if *recordTo == "" {
		t.Skip("runs in the module simulation")
	}
	file, err := os.Create(*recordTo)
	require.NoError(t, err)
	to := bufio.NewWriter(file)
	for i := range *schedules {
		seed := *first + uint64(i)
		w := newWorld(scheduleOf(seed)[0])
		w.recorder = &recorder{run: seed, to: to}
		result := w.play(scheduleOf(seed))
		require.Empty(t, result.broken)
	}
	require.NoError(t, to.Flush())
	require.NoError(t, file.Close())
}

// recorder writes the transcript of a world. A nil one writes nothing.
type recorder struct {
	run uint64
	to  io.Writer
}

func (r *recorder) write(n *name, e transcript.Entry) {
	if r == nil {
		return
	}
	e.Server = fmt.Sprintf("%d %s", r.run, n.text)
	e.Micros = int64(n.server.now) / 1000
	if err := e.Write(r.to); err != nil {
		panic(err)
	}
}

// called writes a call that was run.
func (r *recorder) called(n *name, c wire.Call, reply wire.Reply, listeners map[string]int64) {
	if r == nil {
		return
	}
	e := transcript.Entry{Listeners: listeners}
	if n.family == wire.FairFamily && !n.server.counts {
		c.Args.Publish = wire.PublishNode
	}
	e.Called(c, reply)
	s := n.server
	for _, h := range s.holders {
		e.Holders = append(e.Holders, h.field)
	}
	if len(s.holders) > 0 {
		e.Left = int64(s.left(s.expiry) / time.Millisecond)
	}
	for _, m := range s.line.waiters {
		e.Line = append(e.Line, m.field)
	}
	for _, p := range s.queue {
		e.Line = append(e.Line, p.seat)
	}
	r.write(n, e)
}

// listening returns how many listen to each channel.
func (w *world) listening(n *name) map[string]int64 {
	all := make(map[string]int64)
	for _, p := range w.procs {
		for _, s := range p.subs {
			if s.subscribed {
				all[s.channel]++
			}
		}
	}
	if n.peer.listens && w.base(n) != "" {
		all[w.base(n)]++
	}
	return all
}
