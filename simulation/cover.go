package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// covered are the packages whose statements the simulation should reach.
var covered = []string{"table", "lease", "group", "signal", "transport", "watchdog", "latch"}

const internalPath = "github.com/go-rlock/rlock/internal/"

// countStatements has the builds count the statements of rlock that a seed reaches. The counts go to a directory below dir.
func (r *builder) countStatements(dir string) error {
	r.counts = filepath.Join(dir, "counts")
	return os.Mkdir(r.counts, 0o700)
}

// coverFlags are the flags of the build.
func coverFlags() []string {
	paths := make([]string, len(covered))
	for i, p := range covered {
		paths[i] = internalPath + p
	}
	return []string{"-cover", "-coverpkg", strings.Join(paths, ",")}
}

// coverage prints how many statements of each package the seeds have reached, and where the others are.
func coverage(counts string) error {
	profile := filepath.Join(counts, "profile")
	percent, err := tool("covdata", "percent", "-i", counts)
	if err == nil {
		_, err = tool("covdata", "textfmt", "-i", counts, "-o", profile)
	}
	if err != nil {
		return err
	}
	functions, err := tool("cover", "-func", profile)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(profile)
	if err != nil {
		return err
	}
	missed, err := notReached(string(raw), functions)
	if err != nil {
		return err
	}
	fmt.Printf("Not reached:\n%s%s", missed, strings.ReplaceAll(percent, internalPath, "internal/"))
	return nil
}

// tool runs one of Go's tools.
func tool(args ...string) (string, error) {
	out, err := exec.Command("go", append([]string{"tool"}, args...)...).Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		err = fmt.Errorf("go tool %s: %w\n%s", strings.Join(args, " "), err, failed.Stderr)
	}
	return string(out), err
}

// lines are lines of a file.
type lines struct{ from, to int }

// notReached lists the statements with a count of zero in a profile, function by function. functions is what `go tool cover -func` says.
func notReached(profile, functions string) (string, error) {
	missed := make(map[string][]lines) // by file
	for line := range strings.Lines(profile) {
		block := strings.Fields(line)
		file, at, _ := strings.Cut(block[0], ":")
		if len(block) < 3 || block[1] == "0" || block[2] != "0" { // the first line has the mode
			continue
		}
		from, to, _ := strings.Cut(at, ",")
		var l lines
		var errs [2]error
		l.from, errs[0] = lineOf(from)
		l.to, errs[1] = lineOf(to)
		if err := errors.Join(errs[:]...); err != nil {
			return "", fmt.Errorf("the profile has %q: %w", line, err)
		}
		missed[file] = append(missed[file], l)
	}
	var text strings.Builder
	type function struct {
		file, name string
		from       int
	}
	var all []function
	for s := bufio.NewScanner(strings.NewReader(functions)); s.Scan(); {
		f := strings.Fields(s.Text())
		if parts := strings.Split(f[0], ":"); len(parts) > 1 && parts[1] != "" {
			n, err := strconv.Atoi(parts[1])
			if err != nil {
				return "", fmt.Errorf("a function is at %q: %w", f[0], err)
			}
			all = append(all, function{parts[0], f[1], n})
		}
	}
	for i, f := range all {
		var in []lines
		for _, l := range missed[f.file] {
			if l.from >= f.from && (i+1 == len(all) || all[i+1].file != f.file || l.from < all[i+1].from) {
				in = append(in, l)
			}
		}
		if len(in) > 0 {
			fmt.Fprintf(&text, "  %s:%s %s\n", strings.TrimPrefix(f.file, internalPath), merged(in), f.name)
		}
	}
	return text.String(), nil
}

// lineOf is the line of a position such as 7.13.
func lineOf(at string) (int, error) {
	line, _, _ := strings.Cut(at, ".")
	return strconv.Atoi(line)
}

// merged are lines in the order of the file, those that follow each other as one range.
func merged(all []lines) string {
	slices.SortFunc(all, func(a, b lines) int { return a.from - b.from })
	var ranges []lines
	for _, l := range all {
		if n := len(ranges); n > 0 && l.from <= ranges[n-1].to+1 {
			ranges[n-1].to = max(ranges[n-1].to, l.to)
			continue
		}
		ranges = append(ranges, l)
	}
	texts := make([]string, len(ranges))
	for i, l := range ranges {
		texts[i] = strconv.Itoa(l.from)
		if l.to > l.from {
			texts[i] += "-" + strconv.Itoa(l.to)
		}
	}
	return strings.Join(texts, ",")
}
