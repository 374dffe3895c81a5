package catalog

import (
	"context"
	"iter"
	"strings"
	"unicode"

	"github.com/go-rlock/rlock"
)

// Row returns the row of a lock or semaphore, or nil and no error if nobody holds it and nobody waits for it, or if it is a counter. It
// costs Redis a few commands, however many locks there are.
func (c *Catalog) Row(ctx context.Context, name string) (*Row, error) {
	_, row, err := c.one(ctx, name)
	if row == nil || err != nil || row.Kind == Counter {
		return nil, err
	}
	c.identifyRows(ctx, []*Row{row}, map[string]*rlock.Identity{})
	return row, nil
}

// Filter says which locks and semaphores to find. The zero value is all of them.
type Filter struct {
	// Prefix is what the names begin with.
	Prefix string
	// Text is what a person typed. Each word must be in the name, in any case. A word with a star stands for the whole name, and the star for
	// any part of it.
	Text string
	// Kind is the kind, and Holder a part of the holder as [Row.Who] or as Redis has it, in any case.
	Kind   Kind
	Holder string
	// Waiting is how many wait at least.
	Waiting int
}

// admits reports whether a row fits all but the name.
func (f *Filter) admits(r *Row) bool {
	return (f.Kind == "" || r.Kind == f.Kind) && r.Waiters >= f.Waiting &&
		(f.Holder == "" || strings.Contains(strings.ToLower(r.Who()+"\n"+r.Holder), strings.ToLower(f.Holder)))
}

// Find finds locks and semaphores, in no order. The one whose name is exactly the text comes first, by its keys, and without a SCAN. It
// reads Redis in small pieces, and keeps no more than one of them. While Redis resizes its table, a row may come twice. The last pair has
// the error, if there is one.
func (c *Catalog) Find(ctx context.Context, f Filter) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		exact := ""
		if f.Text != "" && strings.HasPrefix(f.Text, f.Prefix) {
			row, err := c.Row(ctx, f.Text)
			if err != nil {
				yield(Row{}, err)
				return
			}
			if row != nil {
				exact = f.Text
				if f.admits(row) && !yield(*row, nil) {
					return
				}
			}
		}
		words := strings.Fields(strings.ToLower(f.Text))
		s := &search{
			c: c, filter: &f, prefix: c.prefix + f.Prefix, pattern: patternOf(words), known: map[string]*rlock.Identity{}, yield: yield,
			fits: func(name string) bool { return (name != exact || exact == "") && fits(name, words) },
		}
		s.run(ctx)
	}
}

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
