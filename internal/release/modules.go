package main

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// rootModule is the path of the module in the root of the repository. The path of each other module ends with its directory.
const rootModule = "github.com/go-rlock/rlock"

// published lists the directories of the modules that users take, in the order in which they are tagged: a module comes after those that
// it requires.
var published = []string{".", "rlockrueidis", "rlockvalkey", "rlockotel", "rlocktest", "rlockcron", "cmd/rlock", "rlockvet"}

// own matches a version of a module of this repository: a requirement in a go.mod, or what a go.work replaces.
var own = regexp.MustCompile(`(?m)^((?:\s+|require |replace )` + regexp.QuoteMeta(rootModule) + `\S* )(v\S+)`)

// modulePath returns the path of the module in a directory of the repository.
func modulePath(dir string) string { return path.Join(rootModule, dir) }

// tag returns the tag that releases the module in a directory.
func tag(dir, version string) string { return path.Join(dir, version) }

// repository is the root of a checkout.
type repository string

func (r repository) join(elem ...string) string {
	return filepath.Join(append([]string{string(r)}, elem...)...)
}

// named returns the slash-separated paths of all files of a name, from the root of the repository.
func (r repository) named(name string) (paths []string, err error) {
	err = filepath.WalkDir(string(r), func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != string(r) && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || d.Name() != name {
			return nil
		}
		relative, err := filepath.Rel(string(r), file)
		paths = append(paths, filepath.ToSlash(relative))
		return err
	})
	return paths, err
}

// modules returns the directories of all modules.
func (r repository) modules() (dirs []string, err error) {
	files, err := r.named("go.mod")
	for _, file := range files {
		dirs = append(dirs, path.Dir(file))
	}
	return dirs, err
}

// run runs a command in a directory of the repository. env is added to the environment.
func (r repository) run(dir string, env []string, name string, args ...string) (out string, err error) {
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Dir = r.join(dir)
	cmd.Env = append(os.Environ(), env...)
	text, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %s %s: %w\n%s", dir, name, strings.Join(args, " "), err, text)
	}
	return string(text), err
}

// files returns the files of the module in a directory as a commit of everything would have them, by their paths in the module.
func (r repository) files(dir string) (map[string]string, error) {
	out, err := r.run(".", nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", dir)
	if err != nil {
		return nil, err
	}
	dirs, err := r.modules()
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for file := range strings.SplitSeq(out, "\x00") {
		info, err := os.Lstat(r.join(file))
		if file == "" || errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		in := slices.MaxFunc(dirs, func(a, b string) int { return within(file, a) - within(file, b) })
		if in != dir {
			continue // of a module within this one
		}
		all[strings.TrimPrefix(file, dir+"/")] = r.join(file)
	}
	if all["LICENSE"] == "" {
		all["LICENSE"] = r.join("LICENSE") // as the go command takes that of the root
	}
	return all, nil
}

// within returns how specific a directory is for a file: 0 if the file is not in it.
func within(file, dir string) int {
	if dir == "." {
		return 1
	}
	if strings.HasPrefix(file, dir+"/") {
		return 1 + len(dir)
	}
	return 0
}

// publish writes a module as a version into a module proxy that is a directory of files. edit, if it is not nil, changes a file.
func (r repository) publish(proxy, dir, version string, edit func(file string, text []byte) []byte) error {
	files, err := r.files(dir)
	if err != nil {
		return err
	}
	read := func(name string) ([]byte, error) {
		text, err := os.ReadFile(files[name])
		if err == nil && edit != nil {
			text = edit(name, text)
		}
		return text, err
	}
	var archive bytes.Buffer
	zipped := zip.NewWriter(&archive)
	for name := range files {
		text, err := read(name)
		if err != nil {
			return err
		}
		entry, err := zipped.Create(modulePath(dir) + "@" + version + "/" + name)
		if err != nil {
			return err
		}
		if _, err := entry.Write(text); err != nil {
			return err
		}
	}
	if err := zipped.Close(); err != nil {
		return err
	}
	mod, err := read("go.mod")
	if err != nil {
		return err
	}
	to := filepath.Join(proxy, filepath.FromSlash(modulePath(dir)), "@v")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	list, err := os.OpenFile(filepath.Join(to, "list"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.WriteString(list, version+"\n")
	if err := errors.Join(err, list.Close()); err != nil {
		return err
	}
	info := fmt.Sprintf(`{"Version": %q, "Time": "2000-01-01T00:00:00Z"}`, version)
	for end, text := range map[string][]byte{".mod": mod, ".zip": archive.Bytes(), ".info": []byte(info)} {
		if err := os.WriteFile(filepath.Join(to, version+end), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
