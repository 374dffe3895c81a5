package assemble

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// readNames returns what Lua has in the place of each constant of names.go in a directory.
func readNames(dir string) (map[string]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "names.go"), nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	names := make(map[string]string)
	for _, d := range file.Decls {
		constants, _ := d.(*ast.GenDecl)
		if constants == nil || constants.Tok != token.CONST {
			continue
		}
		for _, s := range constants.Specs {
			spec, _ := s.(*ast.ValueSpec)
			value, ok := spec.Values[0].(*ast.BasicLit)
			if !ok {
				return nil, fmt.Errorf("names.go: the value of %s is no number and no string", spec.Names[0])
			}
			text := value.Value
			if value.Kind == token.STRING {
				if text, err = strconv.Unquote(text); err != nil {
					return nil, err
				}
				text = "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
			}
			names[spec.Names[0].Name] = text
		}
	}
	return names, nil
}

// name is a word of Lua that begins with a capital letter. Nothing in the sources does but the names of names.go, KEYS and ARGV.
var name = regexp.MustCompile(`\b[A-Z]\w*\b`)

// fill puts the values of names into their places in a source without comments. A string that is joined with the one behind it becomes
// one with it, because Redis would join them at each run.
func fill(source string, names map[string]string) (string, error) {
	parts, err := scan(source)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i, p := range parts {
		if p.sort != code {
			b.WriteString(p.text)
			continue
		}
		text := name.ReplaceAllStringFunc(p.text, func(word string) string {
			value, ok := names[word]
			if !ok && word != "KEYS" && word != "ARGV" {
				err = fmt.Errorf("names.go does not have %s", word)
			}
			if !ok {
				value = word
			}
			return value
		})
		if joined, ok := strings.CutSuffix(text, "' .. "); ok && i+1 < len(parts) && strings.HasPrefix(parts[i+1].text, "'") {
			text, parts[i+1].text = joined, parts[i+1].text[1:]
		}
		b.WriteString(text)
	}
	return b.String(), err
}
