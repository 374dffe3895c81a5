package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// moduleFiles are the files of a module that list what it requires.
var moduleFiles = []string{"go.mod", "go.sum"}

// standIn writes the go.mod of a module, with the modules of this repository in place of their versions, into another directory. With it
// the go command needs no release, and no go.work: of the versions that a go.mod requires, the next one is not released yet.
func (r repository) standIn(dir, to string) (file string, err error) {
	for _, name := range moduleFiles {
		text, err := os.ReadFile(r.join(dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), text, 0o600)
		}
		if err != nil {
			return "", err
		}
	}
	file = filepath.Join(to, "go.mod")
	replace := []string{"mod", "edit"}
	for _, other := range published {
		if other != dir {
			replace = append(replace, "-replace", modulePath(other)+"="+r.join(other))
		}
	}
	_, err = r.run(dir, nil, "go", append(replace, file)...)
	return file, err
}

// tidied returns what go.mod and go.sum of a module should be, after it has verified what the module requires.
func (r repository) tidied(dir string) (files map[string][]byte, err error) {
	temp, err := os.MkdirTemp("", "rlock-tidy")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	file, err := r.standIn(dir, temp)
	if err != nil {
		return nil, err
	}
	env := []string{"GOWORK=off", "GOFLAGS=-modfile=" + file}
	if _, err := r.run(dir, env, "go", "mod", "tidy"); err != nil {
		return nil, err
	}
	if _, err := r.run(dir, env, "go", "mod", "verify"); err != nil {
		return nil, err
	}
	drop := []string{"mod", "edit"}
	for _, other := range published {
		drop = append(drop, "-dropreplace", modulePath(other))
	}
	if _, err := r.run(dir, nil, "go", append(drop, file)...); err != nil {
		return nil, err
	}
	files = make(map[string][]byte)
	for _, name := range moduleFiles {
		if files[name], err = os.ReadFile(filepath.Join(temp, name)); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// tidy makes go.mod and go.sum of all modules tidy, or only checks whether they are. It stands in for `go mod tidy`, which knows no
// go.work and asks for the release that is yet to come.
func (r repository) tidy(check bool) error {
	dirs, err := r.modules()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		files, err := r.tidied(dir)
		if err != nil {
			return err
		}
		for name, want := range files {
			file := r.join(dir, name)
			have, err := os.ReadFile(file)
			switch {
			case err != nil:
				return err
			case bytes.Equal(have, want):
			case check:
				return fmt.Errorf("%s/%s is not tidy: run make tidy", dir, name)
			default:
				if err := os.WriteFile(file, want, 0o644); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
