package catalog

import (
	"context"
	"iter"
	"strings"
	"unicode"

	"github.com/go-rlock/rlock"
)

// Row returns the row of a lock or semaphore, or nil and no error if nobody holds it and nobody waits for it. It costs Redis a few
// commands, however many locks there are.
func (c *Catalog) Row(ctx context.Context, name string) (*Row, error) { return c.row(ctx, name) }

// Find finds what [Catalog.Rows] finds, if its name also fits what a person typed. Each word must be in the name, in any case. A word
// with a star stands for the whole name, and the star for any part of it. Whatever the text, the lock that has exactly this name comes
// first, by its keys, and without a SCAN. Without a text, all fit.
func (c *Catalog) Find(ctx context.Context, prefix, text string) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		exact := ""
		if text != "" && strings.HasPrefix(text, prefix) {
			row, err := c.Row(ctx, text)
			if err != nil {
				yield(Row{}, err)
				return
			}
			if row != nil {
				exact = text
				if !yield(*row, nil) {
					return
				}
			}
		}
		words := wordsOf(text)
		s := &search{
			c: c, prefix: c.prefix + prefix, pattern: patternOf(words), known: map[string]*rlock.Identity{}, yield: yield,
			fits: func(name string) bool { return (name != exact || exact == "") && fits(name, words) },
		}
		s.run(ctx)
	}
}

// wordsOf returns the words of what a person typed.
func wordsOf(text string) []string { return strings.Fields(strings.ToLower(text)) }

// fits reports whether a name has all words.
func fits(name string, words []string) bool {
	if len(words) == 0 {
		return true
	}
	name = strings.ToLower(name)
	for _, word := range words {
		if !like(name, word) {
			return false
		}
	}
	return true
}

// like reports whether a word is in a name, or, with stars, whether it stands for the name.
func like(name, word string) bool {
	first, rest, star := strings.Cut(word, "*")
	if !star {
		return strings.Contains(name, word)
	}
	name, ok := strings.CutPrefix(name, first)
	for ok {
		var piece string
		piece, rest, star = strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(name, piece)
		}
		_, name, ok = strings.Cut(name, piece)
	}
	return false
}

// patternOf returns a pattern that all keys match whose names have some words, or an empty text if it would match any key. It has no
// more than the longest piece of them, because the time that Redis takes for a pattern with many stars has no bound.
func patternOf(words []string) string {
	longest := ""
	for _, word := range words {
		for _, piece := range strings.FieldsFunc(word, func(r rune) bool { return r == '*' || r > unicode.MaxASCII }) {
			if len(piece) > len(longest) {
				longest = piece
			}
		}
	}
	var b strings.Builder
	for _, r := range longest {
		if r >= 'a' && r <= 'z' {
			b.WriteString("[" + string(r) + string(unicode.ToUpper(r)) + "]")
		} else {
			b.WriteString(escape(string(r)))
		}
	}
	return b.String()
}
