package main

import (
	"context"
	"encoding/xml"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/term"
	"github.com/go-rlock/rlock/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const documents = "../.."

// drawn returns all pictures.
func drawn(t *testing.T) []*picture {
	t.Helper()
	all, err := pictures(documents)
	require.NoError(t, err)
	return all
}

// TestFilesAreWhatTheProgramDraws fails when a picture was changed by hand, or the program or a figure since it ran.
func TestFilesAreWhatTheProgramDraws(t *testing.T) {
	t.Parallel()
	for _, p := range drawn(t) {
		file, err := os.ReadFile(filepath.Join(documents, "pictures", p.file+".svg"))
		require.NoError(t, err)
		require.Equal(t, string(file), string(p.svg()), "%s.svg: run make drawings", p.file)
	}
}

// TestNothingIsInTheWayOfAText checks that texts stay in the picture and in their boxes, do not overlap, and that no line crosses
// one.
func TestNothingIsInTheWayOfAText(t *testing.T) {
	t.Parallel()
	const room = 3 // between a text and the edge of its box
	for _, p := range drawn(t) {
		page := rect{0, 0, p.width, p.height}.grown(-margin + 2)
		for i, text := range p.texts {
			extent := text.extent()
			require.True(t, page.contains(extent), "%s: %q reaches to the edge", p.file, text.content)
			for _, other := range p.texts[:i] {
				require.False(t, extent.overlaps(other.extent()), "%s: %q overlaps %q", p.file, text.content, other.content)
			}
			hidden := false // what is behind the boxes
			for _, b := range p.boxes {
				inside := b.grown(-room).contains(extent)
				require.True(t, inside || !b.overlaps(extent), "%s: %q crosses the edge of a box: %+v", p.file, text.content, b)
				hidden = hidden || inside && (b.class == "box" || b.class == "canvas")
			}
			for k, l := range slices.Concat(p.lines, p.back) {
				require.False(t, l.crosses(extent) && (k < len(p.lines) || !hidden), "%s: a line crosses %q: %+v", p.file, text.content, l)
			}
		}
	}
}

// crosses reports whether a line, without the rounding of its corners, enters a rectangle.
func (l line) crosses(r rect) bool {
	for i, to := range l.points[1:] {
		from := l.points[i]
		for at := 0.0; at < math.Hypot(to.x-from.x, to.y-from.y); at++ {
			if at := from.toward(to, at); r.overlaps(rect{at.x, at.y, 0, 0}.grown(.5)) {
				return true
			}
		}
	}
	return false
}

// TestPicturesCanBeHeard checks that a picture has a title and a description, and that the document that shows it has a text in its
// place.
func TestPicturesCanBeHeard(t *testing.T) {
	t.Parallel()
	guide := ""
	for _, file := range testkit.Must(filepath.Glob(filepath.Join(documents, "guide", "*.md"))) {
		guide += string(testkit.Must(os.ReadFile(file)))
	}
	for _, p := range drawn(t) {
		var svg struct {
			Role  string `xml:"role,attr"`
			Title string `xml:"title"`
			Desc  string `xml:"desc"`
		}
		require.NoError(t, xml.Unmarshal(p.svg(), &svg))
		require.Equal(t, "img", svg.Role)
		require.NotEmpty(t, svg.Title)
		require.Greater(t, len(svg.Desc), 100, p.file)
		shown := regexp.MustCompile(`!\[([^\]]*)\]\(\.\./pictures/`+p.file+`\.svg\)`).FindAllStringSubmatch(guide, -1)
		require.NotEmpty(t, shown, "no page of the guide shows %s", p.file)
		for _, m := range shown {
			require.Greater(t, len(m[1]), 30, p.file)
		}
	}
}

// TestContextsDoWhatIsDrawn makes the calls of the picture, with TryLock where it has Lock.
func TestContextsDoWhatIsDrawn(t *testing.T) {
	t.Parallel()
	client := testkit.Must(rlock.New(redistest.Embedded(t)))
	t.Cleanup(func() { _ = client.Close() })
	lock := client.NewLock("lock")
	made := map[string]context.Context{"ctx": t.Context(), "owner": rlock.WithOwner(t.Context())}
	var inDo []contextNode
	for _, node := range contextTree {
		if node.inDo {
			inDo = append(inDo, node)
			continue
		}
		requireEffects(t, client, node, made)
	}
	require.NoError(t, lock.Do(t.Context(), func(held context.Context) error {
		made["held"], made["same"], made["fresh"] = held, rlock.EnsureOwner(held), rlock.WithOwner(held)
		for _, node := range inDo {
			requireEffects(t, client, node, made)
		}
		return nil
	}))
}

func requireEffects(t *testing.T, client *rlock.Client, node contextNode, made map[string]context.Context) {
	t.Helper()
	for _, call := range node.calls {
		m := regexp.MustCompile(`^(\w+)\.Lock\((\w+)\)$`).FindStringSubmatch(call.code)
		require.NotNil(t, m, call.code)
		lock, ctx := client.NewLock(m[1]), made[m[2]]
		require.NotNil(t, ctx, call.code)
		before := testkit.Must(lock.IsLocked(t.Context()))
		got := testkit.Must(lock.TryLock(ctx))
		effect := waitsForItself
		switch {
		case got && before:
			effect = reenters
		case got:
			effect = acquires
		}
		require.Equal(t, effects[call.effect].text, effects[effect].text, "%s: %s", node.name, call.code)
		if got {
			defer lock.Unlock(ctx)
		}
	}
}

// TestLeaseHasTheFiguresOfRlock compares the times of the picture with those by which rlock decides.
func TestLeaseHasTheFiguresOfRlock(t *testing.T) {
	t.Parallel()
	seconds := func(s float64) clock.Instant { return clock.Instant(math.Round(s * float64(time.Second))) }
	const length = leaseLength * time.Second
	var lease term.Term
	for n := range renewed + 1 {
		sent := seconds(float64(n) * renewEvery)
		lease.Confirm(sent, length)
		require.Equal(t, sent.Add(time.Duration(seconds(renewEvery))), lease.Renewal(length, length))
	}
	require.Equal(t, lease.Deadline, seconds(deadline))
	require.Equal(t, lease.Ends(), seconds(leaseEnd))
	require.Less(t, outage, renewEvery*(renewed+1), "no other renewal succeeds")
	options := string(testkit.Must(os.ReadFile(filepath.Join(documents, "guide", "configuration.md"))))
	require.Contains(t, options, fmt.Sprintf("| `WithWatchdogTimeout(d)` | %v s |", leaseLength))
}

// TestChoosingHasWhatReadmeHas compares the picture with the table of README.
func TestChoosingHasWhatReadmeHas(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(string(testkit.Must(os.ReadFile(filepath.Join(documents, "..", "README.md")))), "\n## Which lock\n")
	section, _, _ = strings.Cut(section, "\n[Choosing]")
	names := regexp.MustCompile("`(\\w+)`")
	var want, have []string
	for _, m := range names.FindAllStringSubmatch(section, -1) {
		want = append(want, m[1])
	}
	for _, n := range slices.Concat(oneAtATime, otherNeeds) {
		for _, m := range names.FindAllStringSubmatch(n.use, -1) {
			have = append(have, m[1])
		}
	}
	require.Greater(t, len(want), 8)
	require.ElementsMatch(t, want, have)
}
