package table

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/testkit/mutants"
)

var planted = flag.String("planted", "", `plant this bug, or "all", and see whether the model test finds it`)

// huntLength is within how many schedules the model test must find each of the bugs.
const huntLength = "200000"

// rare has the seed of a schedule that shows a bug which few do, so that its hunt begins there. If the model has changed since, and the
// schedule shows nothing any more, the hunt goes through all of them.
var rare = map[string]string{
	"line 10": "6154", "line 31": "6251", "stop 2": "6688", "fair 4": "7785", "K5": "7940", "line 22": "8655", "T7": "10557", "line 23": "13898",
	"S.14b": "14829", "line 18": "15524", "6": "17044", "line 9": "19166", "X5": "25620", "T6": "29065", "ghost 2": "33085",
	"line 1": "56737", "T5": "109574",
	"stop 9": "1719", "line 16": "1856", "line 17": "1856", "line 12": "2028", "line 21": "2151", "line 3": "2342", "K3": "2703",
	"stop 7": "2793", "N.8c": "2951", "7": "3898", "L.2d": "23975",
}

// TestPlantedBugsFit checks that the bugs can be planted, so that they do not rot.
func TestPlantedBugsFit(t *testing.T) {
	t.Parallel()
	for _, b := range mutants.Table {
		_, err := b.Plant("../..")
		require.NoError(t, err)
	}
}

// TestPlantedBugs has the model test hunt one bug after the other, which it must find.
func TestPlantedBugs(t *testing.T) {
	if *planted == "" {
		t.Skip("go test ./internal/table -run TestPlantedBugs -planted all")
	}
	files, rest, err := mutants.Schemata("../..", mutants.Table)
	require.NoError(t, err)
	require.Empty(t, rest, "all share one build")
	binary, hunted := buildModel(t, files), 0
	for _, b := range mutants.Table {
		if *planted != "all" && *planted != b.Name {
			continue
		}
		hunted++
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			found := hunt(t, binary, b.Name)
			require.NotEmpty(t, found, "not found: %s", b.What)
			t.Logf("%s: %s", b.What, found)
		})
	}
	require.NotZero(t, hunted, "no bug is named %s", *planted)
}

// buildModel builds the tests of the table with other texts for some files.
func buildModel(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	overlay, err := mutants.Overlay(dir, files)
	require.NoError(t, err)
	binary := filepath.Join(dir, "table.test")
	out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// hunt returns how the model test finds a bug, or nothing.
func hunt(t *testing.T, binary, name string) string {
	t.Helper()
	out, err := "", error(nil)
	if rare[name] != "" {
		out, err = model(binary, name, "-schedules", "1", "-first", rare[name])
	}
	if err == nil {
		out, err = model(binary, name, "-schedules", huntLength)
	}
	if err == nil {
		return ""
	}
	if found := regexp.MustCompile(`broken after \d+ schedules by seed (\d+)\n.*`).FindStringSubmatch(out); found != nil {
		out, err := model(binary, "", "-schedules", "1", "-first", found[1])
		require.NoError(t, err, "the model fails without the bug, too: %s", out)
		return found[0]
	}
	_, after, ok := strings.Cut(out, "panic: ")
	require.True(t, ok && !strings.HasPrefix(after, "test timed out"), out)
	return "panic: " + after[:strings.Index(after, "\n")]
}

// model runs the model test with a bug, or with none.
func model(binary, name string, args ...string) (string, error) {
	cmd := exec.Command(binary, append([]string{"-test.run", "^TestModel$", "-test.v", "-test.timeout", "0", "-story=false"}, args...)...)
	cmd.Env = append(os.Environ(), mutants.Env+"="+name, "GOMAXPROCS=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
