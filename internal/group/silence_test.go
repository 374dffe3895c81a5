package group

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
)

// Write records a log line.
func (j *journal) Write(line []byte) (int, error) {
	j.add("%s", line)
	return len(line), nil
}

func TestARedLockThatNobodyAnswersSaysSoOnce(t *testing.T) {
	t.Parallel()
	for want, err := range []error{fault.ErrRefused, errBroken} {
		bubble(t, func(t *testing.T) {
			t.Helper()
			log := new(journal)
			fakes, members, _ := newMembersOf(newLoggingClient(t, slog.NewTextHandler(log, nil)), 3)
			for _, f := range fakes {
				f.set(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := take(ctx, NewRed(members, newTestQuorum), forever)
			<-time.After(commandTimeout - 100*time.Millisecond)
			synctest.Wait()
			require.Empty(t, log.take())
			<-time.After(10 * commandTimeout)
			synctest.Wait()
			lines := log.take()
			require.Len(t, lines, want, "%v", err)
			for _, line := range lines {
				require.Contains(t, line, `lock="red lock of`)
				require.Equal(t, 1, strings.Count(line, "no usable answer"))
			}
			cancel()
			require.Error(t, <-ended)
		})
	}
}
