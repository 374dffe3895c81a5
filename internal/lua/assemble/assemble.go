// Package assemble puts together the scripts that rlock sends, from their sources in internal/lua. Only tests, and builds with planted
// bugs, do so: what is sent is in the repository.
package assemble

import (
	"crypto/sha1" // by which Redis names scripts
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// preludes have the functions that several scripts share, separated by blank lines. A function may use those before it.
var preludes = []string{
	"prelude.lua", "once_prelude.lua", "counter_prelude.lua", "fenced_prelude.lua", "handover_prelude.lua", "rw_prelude.lua",
	"line_prelude.lua", "fair_prelude.lua", "semaphore_prelude.lua",
}

// tokens is the prelude of the scripts that draw tokens. A script without it never draws one.
const tokens = "fenced_prelude.lua"

// Sources are the sources of all scripts.
type Sources struct {
	preludes map[string]string
	scripts  map[string]string // by the names of their files
	names    map[string]string // the values of names.go, as Lua has them
}

// Read returns the sources in a directory. changed has the texts that take the place of some of the files, by their names.
func Read(dir string, changed map[string]string) (*Sources, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.lua"))
	if err != nil {
		return nil, err
	}
	names, err := readNames(dir)
	if err != nil {
		return nil, err
	}
	s := &Sources{make(map[string]string), make(map[string]string), names}
	for _, path := range paths {
		name := filepath.Base(path)
		text, ok := changed[name]
		if !ok {
			raw, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			text = string(raw)
		}
		if slices.Contains(preludes, name) {
			s.preludes[name] = text
		} else {
			s.scripts[name] = text
		}
	}
	return s, s.check()
}

// check fails if a prelude is missing, or two functions of preludes have one name.
func (s *Sources) check() error {
	known := make(map[string]string)
	for _, name := range preludes {
		if s.preludes[name] == "" {
			return fmt.Errorf("there is no %s", name)
		}
		for text := range strings.SplitSeq(s.preludes[name], "\n\n") {
			function := declared(text)
			if other := known[function]; other != "" && function != "" {
				return fmt.Errorf("%s and %s have a function %s each", other, name, function)
			}
			known[function] = name
		}
	}
	return nil
}

// forKinds is the line of a header that names the kinds that a script is for. A script may be there a second time, with tokens.
var forKinds = regexp.MustCompile(`(?m)^-- (with tokens )?for \S.*$`)

// Files returns the files of all scripts as they are sent, by their names.
func (s *Sources) Files() (map[string]string, error) {
	files := make(map[string]string)
	for name, source := range s.scripts {
		header, body, ok := strings.Cut(source, "\n\n")
		lines := forKinds.FindAllString(header, -1)
		if !ok || len(lines) == 0 {
			return nil, fmt.Errorf("the header of %s does not say which kinds the script is for", name)
		}
		for _, line := range lines {
			called, drawsTokens := strings.TrimSuffix(name, ".lua"), strings.HasPrefix(line, "-- with")
			if drawsTokens && !strings.HasPrefix(called, "fenced_") {
				called = "fenced_" + called
			}
			text, err := s.Complete(body, drawsTokens)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			digest := sha1.Sum([]byte(text))
			own := slices.DeleteFunc(strings.Split(header, "\n"), func(l string) bool { return l != line && slices.Contains(lines, l) })
			files[called+".lua"] = fmt.Sprintf("-- %s %s\n-- Generated from ../%s by go generate: DO NOT EDIT. This header is not sent.\n--\n%s\n\n%s",
				hex.EncodeToString(digest[:]), called, name, strings.Join(own, "\n"), text)
		}
	}
	return files, nil
}

// Complete returns a script as it is sent, given its source without a header: with the functions that it uses, with
// the values of names, and without comments.
func (s *Sources) Complete(body string, drawsTokens bool) (string, error) {
	var all []string
	for _, name := range preludes {
		if drawsTokens || name != tokens {
			all = append(all, s.preludes[name])
		}
	}
	text, err := strip(with(body, strings.Join(all, "\n")))
	if err != nil {
		return "", err
	}
	return fill(text, s.names)
}

// functions is the line of a script at which the functions are put that no line above it uses.
const functions = "\n-- functions\n"

// with puts into a script the functions of preludes that it uses: on top, or else at the last line "-- functions" above
// their first use. It leaves out the others. Redis creates every function again at each run that gets to it.
func with(script, preludes string) string {
	var sections [][]string // of the script, each from its last part to its first
	for section := range strings.SplitSeq(script, functions) {
		sections = append(sections, []string{section})
	}
	for _, part := range slices.Backward(strings.Split(preludes, "\n\n")) {
		name := declared(part)
		if name == "" {
			continue
		}
		i := slices.IndexFunc(sections, func(parts []string) bool {
			return slices.ContainsFunc(parts, func(part string) bool { return uses(part, name) })
		})
		if i >= 0 {
			sections[i] = append(sections[i], strings.TrimSpace(part)+"\n")
		}
	}
	var all []string
	for _, parts := range sections {
		slices.Reverse(parts)
		all = append(all, parts...)
	}
	return strings.Join(all, "\n")
}

// declared returns the name of the function that a part of a prelude declares. Empty means none.
func declared(part string) string {
	_, declaration, _ := strings.Cut("\n"+part, "\nlocal function ")
	name, _, _ := strings.Cut(declaration, "(")
	return name
}

// uses reports whether a source calls a function, or has pcall do so. A build with all planted bugs asks a million times, so it searches
// without regular expressions.
func uses(source, name string) bool {
	for from := 0; ; {
		at := strings.Index(source[from:], name)
		if at < 0 {
			return false
		}
		before, after := source[:from+at], source[from+at+len(name):]
		if strings.HasPrefix(after, "(") && !endsInWord(before) || strings.HasSuffix(before, "pcall(") && !beginsWithWord(after) {
			return true
		}
		from += at + len(name)
	}
}

func endsInWord(text string) bool { return text != "" && inWord(text[len(text)-1]) }

func beginsWithWord(text string) bool { return text != "" && inWord(text[0]) }

// inWord reports whether a character may be part of a name in Lua.
func inWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// Embed returns the source of Go that embeds the files.
func Embed(files map[string]string) string {
	var b strings.Builder
	b.WriteString("// Code generated from the scripts in sent by go generate; DO NOT EDIT.\n\npackage lua\n\nimport _ \"embed\"\n\n" +
		"// The scripts as they are sent, with their headers: see [Open].\nvar (\n")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, "\t//go:embed sent/%s\n\t", name)
		for word := range strings.SplitSeq(strings.TrimSuffix(name, ".lua"), "_") {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
		b.WriteString(" string\n")
	}
	b.WriteString(")\n")
	return b.String()
}
