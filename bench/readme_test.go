package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReadmeRepeatsTheReport(t *testing.T) {
	report, err := os.ReadFile("../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	table, err := readmeTable(string(report))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), readmeBegin+table+readmeEnd) {
		t.Errorf("README.md has other figures than docs/benchmarks.md:\n%s", table)
	}
	for _, row := range readmeRows() {
		_, heading, _ := strings.Cut(row.link(), "#")
		if !strings.Contains(anchors(string(report)), "\n"+heading+"\n") {
			t.Errorf("%s leads nowhere", row.link())
		}
	}
}

// anchors returns the anchors that GitHub makes of the headings, a line each.
func anchors(text string) string {
	var b strings.Builder
	b.WriteString("\n")
	for line := range strings.Lines(text) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			for _, r := range strings.ToLower(heading) {
				switch {
				case r == ' ':
					b.WriteRune('-')
				case r == '-' || r == '\n' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z':
					b.WriteRune(r)
				}
			}
		}
	}
	return b.String()
}

func TestCheckWatchesEveryRowOfReadme(t *testing.T) {
	_, watch := checked()
	for _, row := range readmeRows() {
		sc, _ := scenarioOf(scenarios(), row.scenario)
		watched := slices.ContainsFunc(watch, func(g guarded) bool {
			return g.library == "rlock" && g.scenario == row.scenario && g.size == row.size &&
				g.metric == sc.head && g.toFloor == (row.column == ratioColumn)
		})
		if !watched {
			t.Errorf("bench-check does not watch %q of README", row.what)
		}
	}
}

func TestTheTableOfReadme(t *testing.T) {
	report := strings.Builder{}
	for _, row := range readmeRows() {
		report.WriteString("| " + row.scenario + ", " + row.size + " | figure | to the floor | p99 |\n| --- | --- | --- | --- |\n" +
			"| rlock | 1,234 | 1.21 (1.10 to 1.30) | 5 |\n| redsync | does not renew by itself | | |\n" +
			"| rueidislock-m1 (round 4: none) | 77 | 0.50 (0.40 to 0.60) | 5 |\n\n")
	}
	file := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(file, []byte("before\n"+readmeBegin+"old"+readmeEnd+"\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeReadme(file, report.String()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"before\n" + readmeBegin + "| ", readmeEnd + "\nafter\n",
		"(docs/benchmarks.md#s2-many-goroutines-each-its-own-name) | pairs/s, × raw; more is better | 1.21 |  | – |  | 0.50 |\n",
		"| heap bytes of a lock; less is better | 1,234 |  | – |  | 77 |\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if err := writeReadme(file, "nothing"); err == nil {
		t.Error("a report without the tables is an error")
	}
}

func TestASectionIsReplaced(t *testing.T) {
	t.Parallel()
	const report = "intro\n\n## S1. A\n\nold\n\n## S2. B\n\nkept\n"
	for section, want := range map[string]string{
		"## S1. A\n\nnew\n\n": "intro\n\n## S1. A\n\nnew\n\n## S2. B\n\nkept\n",
		"## S2. C\n\nnew\n\n": "intro\n\n## S1. A\n\nold\n\n## S2. C\n\nnew\n\n",
		"## S3. C\n\nnew\n\n": report + "\n## S3. C\n\nnew\n\n",
	} {
		if got := withSection(report, section); got != want {
			t.Errorf("with %q:\n%q\nwant\n%q", section, got, want)
		}
	}
}
