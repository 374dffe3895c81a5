package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/cmd/rlock/internal/doctor"
)

// TestGuide checks that the guide has each check of the doctor and each flag that it names.
func TestGuide(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/guide/operating.md")
	require.NoError(t, err)
	for _, c := range doctor.Checks() {
		require.Contains(t, string(text), fmt.Sprintf("| [%s](../../%s) | %d | %s |\n", c.ID, c.Page, c.Code, c.Finds))
	}
	help := ""
	for _, sub := range []string{"", "run", "ls", "show", "free", "doctor", "ui", "demo", "script"} {
		_, out, _ := command(t, "127.0.0.1:1", strings.Fields(sub+" --help")...)
		help += out
	}
	for _, word := range strings.FieldsFunc(string(text), func(r rune) bool { return strings.ContainsRune(" \n`|=:;,().…", r) }) {
		if strings.HasPrefix(word, "--") && strings.Trim(word, "->") != "" && word != "--tls" {
			require.Contains(t, help, word+" ", word)
		}
	}
}
