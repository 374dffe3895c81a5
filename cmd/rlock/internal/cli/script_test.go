package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// TestScript finds the script of each SHA that Redis gets, and lists all.
func TestScript(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	code, list, errs := command(t, "127.0.0.1:1", "script")
	require.Zero(t, code, errs)
	lines := strings.Split(strings.TrimSpace(list), "\n")
	require.Greater(t, len(lines), 40)
	for _, line := range lines {
		sha, name, _ := strings.Cut(line, " ")
		code, out, errs := command(t, "127.0.0.1:1", "script", sha[:12])
		require.Zero(t, code, errs)
		header, text, _ := strings.Cut(out, "\n\n")
		require.True(t, strings.HasPrefix(header, "-- "+sha+" "+name+"\n"), header)
		require.Equal(t, sha, testkit.Must(rdb.ScriptLoad(t.Context(), text).Result()), "what follows the header is what Redis gets")
	}
	for sha, want := range map[string]int{
		lines[0][:40]: 0, strings.ToUpper(lines[0][:40]): 0, "0000000000000000": exitNo, "no": exitUsage, "": exitUsage, strings.Repeat("0", 41): exitUsage,
	} {
		code, out, errs := command(t, "127.0.0.1:1", "script", sha)
		require.Equal(t, want, code, sha+errs)
		require.Equal(t, want == 0, out != "", sha)
	}
	shared := map[byte]bool{}
	for _, line := range lines {
		if shared[line[0]] {
			code, _, errs := command(t, "127.0.0.1:1", "script", line[:1])
			require.Equal(t, exitUsage, code)
			require.Regexp(t, `^rlock: the SHAs of \d+ scripts begin with `+line[:1]+"\n$", errs)
			return
		}
		shared[line[0]] = true
	}
}
