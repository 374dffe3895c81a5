package doctor

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheNeedsAreThoseOfTheDocument: docs/servers.md names each command for which a user needs a right, and no other but those of
// the client and of the doctor.
func TestTheNeedsAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/servers.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(page), "\n## What rlock needs of a server\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	named := regexp.MustCompile("`([A-Z]{3,}(?: [A-Z]+)?)`").FindAllStringSubmatch(section, -1)
	var inDocument, inRows []string
	for _, m := range named {
		inDocument = append(inDocument, m[1])
	}
	for _, rule := range every() {
		if command, ok := strings.CutPrefix(rule, "+"); ok {
			inRows = append(inRows, strings.ToUpper(strings.Replace(command, "|", " ", 1)))
		}
	}
	for _, command := range inRows {
		require.Contains(t, inDocument, command)
	}
	others := strings.Fields("KEYS NOPERM CROSSSLOT HELLO INFO SCAN")
	others = append(others, "CLIENT SETINFO", "CONFIG GET", "ACL WHOAMI", "ACL DRYRUN", "CLUSTER INFO", "CLUSTER NODES")
	for _, command := range unique(inDocument) {
		require.True(t, slices.Contains(inRows, command) || slices.Contains(others, command), command)
	}
}
