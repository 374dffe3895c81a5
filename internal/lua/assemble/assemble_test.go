package assemble

import (
	"crypto/sha1"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/lua"
)

var update = flag.Bool("update", false, "write the files that are sent")

// TestSentIsCurrent checks that what is sent is what the sources make.
func TestSentIsCurrent(t *testing.T) {
	t.Parallel()
	sources, err := Read("..", nil)
	require.NoError(t, err)
	files, err := sources.Files()
	require.NoError(t, err)
	require.Greater(t, len(files), 40)
	want := map[string]string{filepath.Join("..", "embed.go"): Embed(files)}
	for name, text := range files {
		want[filepath.Join("..", "sent", name)] = text
	}
	present, err := filepath.Glob("../sent/*")
	require.NoError(t, err)
	for _, path := range present {
		if _, ok := want[path]; !ok && *update {
			require.NoError(t, os.Remove(path))
		} else {
			require.True(t, ok, "%s has no source: run go generate ./internal/lua", path)
		}
	}
	for path, text := range want {
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			continue
		}
		is, err := os.ReadFile(path)
		require.NoError(t, err, "run go generate ./internal/lua")
		require.Equal(t, text, string(is), "run go generate ./internal/lua")
	}
}

// TestDigestsAreThoseOfTheScripts checks that the header of each file has the SHA-1 of what is sent, and the name of the file. No two
// scripts are the same.
func TestDigestsAreThoseOfTheScripts(t *testing.T) {
	t.Parallel()
	known := make(map[string]string)
	for _, s := range lua.All() {
		sum := sha1.Sum([]byte(s.Text))
		require.Equal(t, hex.EncodeToString(sum[:]), s.Digest, s.Name)
		require.True(t, strings.HasPrefix(s.File, "-- "+s.Digest+" "+s.Name+"\n"), s.Name)
		require.NotContains(t, s.Text, "\n\n", s.Name)
		require.Empty(t, known[s.Digest], s.Name)
		known[s.Digest] = s.Name
	}
	require.Greater(t, len(known), 40)
}

func TestStrip(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"-- a\n\nreturn 1 -- b\n":                           "return 1\n",
		"return '-- no' .. \"--[[ no ]]\" -- yes":           "return '-- no' .. \"--[[ no ]]\"\n",
		`return 'it\'s -- no' -- yes` + "\n":                `return 'it\'s -- no'` + "\n",
		"return '\\\\' -- yes":                              "return '\\\\'\n",
		"return [[a -- no\n\n  b]] -- yes\n":                "return [[a -- no\n\n  b]]\n",
		"return [==[a ]] -- no ]==] .. t[ [[x]] ] -- yes\n": "return [==[a ]] -- no ]==] .. t[ [[x]] ]\n",
		"local a--[[ gone\n\n]]= t[1]--[==[ ]] gone ]==]\n": "local a = t[1]\n",
		"return#t[1]--[ a line, not a x\nor 1\n":            "return#t[1]\nor 1\n",
	} {
		got, err := strip(source)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, source := range []string{"return 'a", "return [[a]", "--[=[ a ]]"} {
		_, err := strip(source)
		require.ErrorContains(t, err, "has no end", source)
	}
}

// TestFunctionsHaveOneName checks that no two preludes have a function of one name, of which a script would get both.
func TestFunctionsHaveOneName(t *testing.T) {
	t.Parallel()
	_, err := Read("..", map[string]string{"semaphore_prelude.lua": "local function raise()\nend\n"})
	require.EqualError(t, err, "fenced_prelude.lua and semaphore_prelude.lua have a function raise each")
}

// TestFunctionsComeAtTheirFirstUse checks where a script gets its functions.
func TestFunctionsComeAtTheirFirstUse(t *testing.T) {
	t.Parallel()
	preludes := "-- A.\nlocal function a()\nend\n\nlocal function b()\n  return a()\nend\n\nlocal function c()\nend\n\nlocal function d()\nend\n"
	got, err := strip(with("if KEYS[1] then\n  return c()\nend\n\n-- functions\nlocal cc = 1\nreturn pcall(b) and t.e(d)\n", preludes))
	require.NoError(t, err)
	require.Equal(t, "local function c()\nend\nif KEYS[1] then\n  return c()\nend\nlocal function a()\nend\nlocal function b()\n"+
		"  return a()\nend\nlocal cc = 1\nreturn pcall(b) and t.e(d)\n", got)
}

// TestNames checks that names.go has a sentence for each name, that somebody uses it, and that a source has no other names.
func TestNames(t *testing.T) {
	t.Parallel()
	sources, err := Read("..", nil)
	require.NoError(t, err)
	table, err := os.ReadFile("../names.go")
	require.NoError(t, err)
	var users strings.Builder
	for _, pattern := range []string{"../*.lua", "../../wire/*.go"} {
		paths, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			users.Write(text)
		}
	}
	require.Greater(t, len(sources.names), 30)
	for name := range sources.names {
		require.Regexp(t, `(?m)^\t// (`+name+` |[^\n]*\n\t`+name+` |[^\n]*\n\t\w+ +=[^\n]*\n\t`+name+` )`, string(table), "a sentence about %s", name)
		require.Regexp(t, `\b`+name+`\b`, users.String(), "nobody uses %s", name)
	}
	_, err = sources.Complete("return OfferMark .. OfferMarc", false)
	require.EqualError(t, err, "names.go does not have OfferMarc")
	got, err := sources.Complete("return {KEYS[1], t.x, MessageGranted .. ' %s', OfferMark .. a, 'OfferMark', WaitersEnd - 1} -- OfferMarc", false)
	require.NoError(t, err)
	require.Equal(t, "return {KEYS[1], t.x, '6 %s', '#o' .. a, 'OfferMark', 3e15 - 1}\n", got)
}
