package assemble

import (
	"fmt"
	"strings"
)

// sort is what a part of a source is.
type sort uint8

const (
	code sort = iota
	quoted
	comment
)

// part is a piece of a source: code, a string with its quotes, or a comment.
type part struct {
	sort sort
	text string
}

// scan returns the parts of a source, in their order.
func scan(source string) ([]part, error) {
	var parts []part
	from, at := 0, 0
	for at < len(source) {
		length, sort, err := piece(source[at:])
		switch {
		case err != nil:
			return nil, err
		case length == 0:
			at++
			continue
		case at > from:
			parts = append(parts, part{code, source[from:at]})
		}
		parts = append(parts, part{sort, source[at : at+length]})
		at += length
		from = at
	}
	if at > from {
		parts = append(parts, part{code, source[from:]})
	}
	return parts, nil
}

// piece returns the length of the string or the comment with which a source begins. Zero means that it begins with neither.
func piece(source string) (length int, sort sort, err error) {
	var end int
	switch {
	case source[0] == '\'' || source[0] == '"':
		sort, end = quoted, quotedLength(source)
	case source[0] == '[' && long(source) > 0:
		sort, end = quoted, longLength(source)
	case strings.HasPrefix(source, "--") && long(source[2:]) > 0:
		if sort, end = comment, longLength(source[2:]); end > 0 {
			end += 2
		}
	case strings.HasPrefix(source, "--"):
		if sort, end = comment, strings.IndexByte(source, '\n'); end < 0 {
			end = len(source)
		}
	default:
		return 0, code, nil
	}
	if end < 0 {
		return 0, code, fmt.Errorf("this string or comment has no end: %.60s", source)
	}
	return end, sort, nil
}

// quotedLength returns the length of the string with which a source begins, or -1.
func quotedLength(source string) int {
	for i := 1; i < len(source); i++ {
		switch source[i] {
		case '\\':
			i++
		case source[0]:
			return i + 1
		}
	}
	return -1
}

// long returns the length of the long bracket with which a source begins, such as [==[, or 0.
func long(source string) int {
	rest, opened := strings.CutPrefix(source, "[")
	level := len(rest) - len(strings.TrimLeft(rest, "="))
	if !opened || !strings.HasPrefix(rest[level:], "[") {
		return 0
	}
	return level + 2
}

// longLength returns the length of the text in long brackets with which a source begins, or -1.
func longLength(source string) int {
	opening := long(source)
	closing := "]" + source[1:opening-1] + "]"
	end := strings.Index(source[opening:], closing)
	if end < 0 {
		return -1
	}
	return opening + end + len(closing)
}

// strip returns a source without comments and empty lines. What is in a string stays as it is.
func strip(source string) (string, error) {
	parts, err := scan(source)
	if err != nil {
		return "", err
	}
	const inString = "\x00" // stands for a line break there
	var joined strings.Builder
	for _, p := range parts {
		switch {
		case p.sort == quoted:
			joined.WriteString(strings.ReplaceAll(p.text, "\n", inString))
		case p.sort == code:
			joined.WriteString(p.text)
		case strings.HasPrefix(p.text, "--["):
			joined.WriteString(" ") // it may be all that is between two words
		}
	}
	var lines strings.Builder
	for line := range strings.SplitSeq(joined.String(), "\n") {
		if line = strings.TrimRight(line, " \t\r"); line != "" {
			lines.WriteString(line + "\n")
		}
	}
	return strings.ReplaceAll(lines.String(), inString, "\n"), nil
}
