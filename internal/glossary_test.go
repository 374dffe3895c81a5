package internal_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGlossary checks that the glossary is in order, and that the code has each of its words: as a name, or in a comment.
func TestGlossary(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../CONTRIBUTING.md")
	require.NoError(t, err)
	_, glossary, found := strings.Cut(string(page), "\n## Glossary\n")
	require.True(t, found)
	glossary, _, _ = strings.Cut(glossary, "\n## ")
	var words []string
	for _, row := range regexp.MustCompile(`(?m)^\| (.+) \| .+ \|$`).FindAllStringSubmatch(glossary, -1) {
		if row[1] != "word" && row[1] != "---" {
			words = append(words, row[1])
		}
	}
	require.Greater(t, len(words), 40)
	require.True(t, slices.IsSorted(words), "the words are in the order of the alphabet")
	require.Len(t, slices.Compact(slices.Clone(words)), len(words), "a word is explained twice")

	var code strings.Builder
	for _, s := range sources(t) {
		code.WriteString(s.text)
	}
	for _, word := range words {
		pattern := `(?i)` + regexp.MustCompile(`[ -]`).ReplaceAllString(regexp.QuoteMeta(word), `[ -]?`)
		require.True(t, regexp.MustCompile(pattern).MatchString(code.String()), "%s: nothing has this word: take it out of the glossary", word)
	}
}
