// Package lua has the scripts that rlock runs on Redis. The directory sent has each of them as it is sent, and its header has the digest by
// which SLOWLOG and MONITOR name it.
//
// Their sources are the .lua files beside this one. Each opens with a sentence that describes the script, followed by its KEYS, ARGV,
// replies and kinds, and the rules of docs/rules.md that it keeps. Tests compare this header with the arguments that the script uses,
// and with the rules. Preludes have the functions that several scripts share, separated by blank lines. Words of a source that begin
// with a capital letter are names of names.go.
//
// What a script does most often is written out in it, because Redis makes each function again at every run. The comment "written out"
// marks such a block. Without it the script does the same, more slowly: a test of the package wire compares the two.
//
// A script is sent with the functions that it uses, and without comments: [assemble] puts it together. Run go generate in this
// directory after each change of a source. A test fails if nobody did.
//
// [assemble]: https://pkg.go.dev/github.com/go-rlock/rlock/internal/lua/assemble
package lua

import (
	"embed"
	"path"
	"strings"
)

//go:generate go test ./assemble -run TestSentIsCurrent -count 1 -update

// digest is the length of a SHA-1 in hex.
const digest = 40

// Open returns what a file has: the SHA-1 of the script in hex, and the script. It costs next to nothing, because every program that
// imports rlock opens all files when it starts.
func Open(file string) (sha, text string) {
	_, text, _ = strings.Cut(file, "\n\n")
	return file[len("-- ") : len("-- ")+digest], text
}

// Script is a script, for those who show it.
type Script struct {
	Name   string // of its file
	Digest string // the SHA-1 of its text in hex
	Text   string
	File   string // the text below its header, which is not sent
}

//go:embed sent/*.lua
var sent embed.FS

// All returns all scripts, in the order of their names.
func All() []Script {
	files, _ := sent.ReadDir("sent")
	all := make([]Script, 0, len(files))
	for _, f := range files {
		file, _ := sent.ReadFile(path.Join("sent", f.Name()))
		digest, text := Open(string(file))
		all = append(all, Script{strings.TrimSuffix(f.Name(), ".lua"), digest, text, string(file)})
	}
	return all
}
