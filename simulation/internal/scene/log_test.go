package scene

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheLogSaysWhoHasWhat writes events as a trace does.
func TestTheLogSaysWhoHasWhat(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	l := NewLog(&text, Scene{Locks: []Lock{{kindLock, "a"}, {kindMulti, "a c"}, {kindLock, "b"}}})
	for event := range strings.Lines(`0s p0 starts, and is 11-22 to redis0
0s p1 starts, and is 33-44 to redis0
1.0000004s p0 wants a: for 1s
1.2s p0 to redis0: acquire [a 11-22:1] = 0
1.5s p1 wants b: for 1s
1.6s p1 does not get b: rlock: not acquired
1.7s p1 wants a c: for 1s
1.8s p0 got a, with the token 7
1.9s nemesis kill, of p0
1.9s p0 is dead to redis0
2s p1 got a c, with the token 0
2.1s p1 logs: 33-44 has b
2.2s p1 unlocks a c: <nil>
3s BROKEN: 3s exclusion: p1 got a, which p0 has since 1.8s
4s p0 wants a: for 2s
`) {
		n, err := l.Write([]byte(event))
		require.NoError(t, err)
		require.Equal(t, len(event), n)
	}
	require.Equal(t, `            0s  p0 starts, and is 11-22 to redis0
            0s  p1 starts, and is 33-44 to redis0
            1s  p0 wants a: for 1s   <a: nobody; wanted by p0>
          1.2s  p0 to redis0: acquire [a p0:1] = 0
          1.5s  p1 wants b: for 1s   <b: nobody; wanted by p1>
          1.6s  p1 does not get b: rlock: not acquired   <b: nobody>
          1.7s  p1 wants a c: for 1s   <a: nobody; wanted by p0 | a c: nobody; wanted by p1>
          1.8s  p0 got a, with the token 7   <a: p0 | a c: nobody; wanted by p1>
          1.9s  nemesis kill, of p0
          1.9s  p0 is dead to redis0
            2s  p1 got a c, with the token 0   <a: nobody; of the dead: p0 | a c: p1>
          2.1s  p1 logs: p1 has b
          2.2s  p1 unlocks a c: <nil>   <a: nobody; of the dead: p0 | a c: nobody>
            3s  BROKEN: 3s exclusion: p1 got a, which p0 has since 1.8s
            4s  p0 wants a: for 2s   <a: nobody; of the dead: p0; wanted by p0>
`, text.String())
	require.Equal(t, []string{
		"          1.9s  nemesis kill, of p0",
		"            2s  p1 got a c, with the token 0   <a: nobody; of the dead: p0 | a c: p1>",
		"          2.2s  p1 unlocks a c: <nil>   <a: nobody; of the dead: p0 | a c: nobody>",
		"            3s  BROKEN: 3s exclusion: p1 got a, which p0 has since 1.8s",
	}, l.Story(4), "neither what is about b, nor what comes later")
}

func TestTheLogFollowsATicket(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	l := NewLog(&text, Scene{Locks: []Lock{{kindLock, "a"}}})
	for event := range strings.Lines("1s p0 got a, with the token 0\n2s p1 received a of p0\n3s p1 gave up a: rlock: lost\n") {
		_, err := l.Write([]byte(event))
		require.NoError(t, err)
	}
	require.Equal(t, []string{"<a: p0>", "<a: p1>", "<a: nobody>"}, slicesOf(text.String()))
	require.Empty(t, l.Story(3), "nothing broke")
}

// slicesOf returns what the lines of a log say about locks.
func slicesOf(text string) (all []string) {
	for line := range strings.Lines(text) {
		all = append(all, strings.TrimSpace(line[strings.Index(line, "<"):]))
	}
	return all
}
