package snippets

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// snippet is a block of Go in a page.
type snippet struct {
	page string // its path in the repository
	line int    // of the first line of the code
	code string

	foreign   bool   // it needs a module that none of ours requires, so it is not compiled
	only      bool   // it is compiled, and not run
	prints    string // what it prints; empty means anything
	given     string // declarations that it needs
	givenLine int
}

// where returns the place of the code.
func (s snippet) where() string { return fmt.Sprintf("%s:%d", s.page, s.line) }

const note = "<!-- snippet: " // begins a comment about the next snippet

var block = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// extract returns the snippets of a page.
func extract(page, text string) (all []snippet, err error) {
	lineAt := func(offset int) int { return 1 + strings.Count(text[:offset], "\n") }
	notes := 0
	for _, at := range block.FindAllStringSubmatchIndex(text, -1) {
		s := snippet{page: page, line: lineAt(at[2]), code: text[at[2]:at[3]]}
		before := strings.TrimRight(text[:at[0]], "\n")
		if begin := strings.LastIndex(before, "<!--"); strings.HasSuffix(before, "-->") && strings.HasPrefix(before[begin:], note) {
			begin += len(note)
			if s, err = s.noted(strings.TrimSuffix(before[begin:], "-->"), lineAt(begin)); err != nil {
				return nil, err
			}
			notes++
		}
		all = append(all, s)
	}
	if strings.Count(text, note) != notes {
		return nil, fmt.Errorf("%s: no snippet follows the comment about it", page)
	}
	if strings.Count(text, "```go\n") != len(all) {
		return nil, fmt.Errorf("%s: a snippet is indented, or does not end", page)
	}
	return all, nil
}

// noted returns the snippet with what a comment says about it.
func (s snippet) noted(said string, line int) (_ snippet, err error) {
	if given, ok := strings.CutPrefix(said, "given\n"); ok {
		s.given, s.givenLine = given, line+1
		return s, nil
	}
	said = strings.TrimSpace(said)
	if text, ok := strings.CutPrefix(said, "prints "); ok {
		s.prints, err = strconv.Unquote(text)
	} else if s.foreign = strings.HasPrefix(said, "not compiled, because "); s.foreign {
		return s, nil
	} else if s.only = strings.HasPrefix(said, "only compiled, because "); !s.only {
		err = fmt.Errorf("%q is not known", said)
	}
	if err != nil {
		return s, fmt.Errorf("%s:%d: the comment about a snippet: %w", s.page, line, err)
	}
	return s, nil
}
