package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

var (
	release = regexp.MustCompile(`^v(\d+\.\d+)\.(\d+)(-[0-9A-Za-z.-]+)?$`)
	edition = regexp.MustCompile(`MustHaveTheSameMinorVersion\d+`)
)

// editionFile has the number that driver modules and rlock must agree on.
const editionFile = "internal/driver/edition.go"

// prepare checks that the repository is ready for a release, sets the version that the modules require of each other, and says which
// tags to set. It sets no tag, and pushes nothing.
func (r repository) prepare(version string, out io.Writer) error {
	if !release.MatchString(version) {
		return fmt.Errorf("a version is v1.2.3 or v1.2.3-rc.1, not %q", version)
	}
	if changed, err := r.run(".", nil, "git", "status", "--porcelain"); err != nil || changed != "" {
		return errors.Join(err, fmt.Errorf("commit these changes first:\n%s", changed))
	}
	if tags, err := r.run(".", nil, "git", "tag", "--list", version); err != nil || tags != "" {
		return errors.Join(err, fmt.Errorf("the tag %s exists already", version))
	}
	changes, err := os.ReadFile(r.join("CHANGELOG.md"))
	if err == nil {
		err = described(string(changes), version)
	}
	if err != nil {
		return err
	}
	if err := r.sameEdition(version); err != nil {
		return err
	}
	set, err := r.require(version)
	if err != nil {
		return err
	}
	if err := r.tidy(true); err != nil {
		return err
	}
	if set {
		_, err = fmt.Fprintf(out, "The modules require %s now. Commit that, and run this again:\n\n  git commit --all --message 'rlock %s'\n", version, version)
		return err
	}
	return announce(version, out)
}

// announce says which tags make a release.
func announce(version string, out io.Writer) error {
	tags := make([]string, len(published))
	var text strings.Builder
	text.WriteString("Ready. When .ci/run has passed on this commit, tag it and push. The root comes first, because the others require it:\n\n")
	for i, dir := range published {
		tags[i] = tag(dir, version)
		fmt.Fprintf(&text, "  git tag --annotate --message 'rlock %s' %s\n", version, tags[i])
	}
	fmt.Fprintf(&text, "  git push origin %s\n  git push origin %s\n", tags[0], strings.Join(tags[1:], " "))
	_, err := io.WriteString(out, text.String())
	return err
}

// described reports an error if CHANGELOG.md has nothing about a version, or if it still has what is not released.
func described(changes, version string) error {
	sections := make(map[string]string)
	title := ""
	for line := range strings.Lines(changes) {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			title, _, _ = strings.Cut(strings.TrimSpace(name), " ") // behind it may be a date
			continue
		}
		sections[title] += strings.TrimSpace(line)
	}
	number := strings.TrimPrefix(version, "v")
	if sections[number] == "" {
		return fmt.Errorf("CHANGELOG.md has no section %q, or nothing in it", "## "+number)
	}
	if sections["Unreleased"] != "" {
		return fmt.Errorf("CHANGELOG.md has changes below Unreleased: they belong to %s", number)
	}
	return nil
}

// sameEdition reports an error if a patch release would not fit the driver modules of its minor version.
func (r repository) sameEdition(version string) error {
	m := release.FindStringSubmatch(version)
	first := "v" + m[1] + ".0"
	before, err := r.run(".", nil, "git", "show", first+":"+editionFile)
	if m[2] == "0" || err != nil { // also if the first release is not known here
		return nil //nolint:nilerr // as it says
	}
	now, err := os.ReadFile(r.join(editionFile))
	if err == nil && edition.FindString(before) != edition.FindString(string(now)) {
		err = fmt.Errorf("driver modules of %s would not compile with %s: its edition is another one (%s), so it needs a new minor version",
			first, version, editionFile)
	}
	return err
}

// require sets the version that the modules require of each other, in each go.mod and go.work, and reports whether it was another one.
func (r repository) require(version string) (set bool, err error) {
	for _, name := range []string{"go.mod", "go.work"} {
		files, err := r.named(name)
		if err != nil {
			return set, err
		}
		for _, file := range files {
			have, err := os.ReadFile(r.join(file))
			if err != nil {
				return set, err
			}
			want := own.ReplaceAll(have, []byte("${1}"+version))
			if bytes.Equal(have, want) {
				continue
			}
			set = true
			if err := os.WriteFile(r.join(file), want, 0o644); err != nil {
				return set, err
			}
		}
	}
	return set, nil
}
