package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert/yaml"
	"github.com/stretchr/testify/require"
)

const deploying = "docs/guide/deploying.md"

// object is a part of a YAML document.
type object map[string]any

// at returns the part at a path, whose last element may be anything.
func (o object) at(t *testing.T, path ...string) any {
	t.Helper()
	var here any = o
	for _, name := range path {
		if list, ok := here.([]any); ok && name == "0" {
			require.Len(t, list, 1, "%v", path)
			here = list[0]
			continue
		}
		inner, ok := here.(object) // which the decoder takes for a mapping within one
		require.True(t, ok, "%v: %q is in no mapping", path, name)
		here, ok = inner[name]
		require.True(t, ok, "%v: there is no %q", path, name)
	}
	return here
}

func (o object) part(t *testing.T, path ...string) object {
	t.Helper()
	inner, ok := o.at(t, path...).(object)
	require.True(t, ok, "%v is no mapping", path)
	return inner
}

func (o object) list(t *testing.T, name string) (texts []string) {
	t.Helper()
	all, ok := o.at(t, name).([]any)
	require.True(t, ok, "%s is no list", name)
	for _, one := range all {
		text, ok := one.(string)
		require.True(t, ok, "%s: %v is no text: quote it", name, one)
		texts = append(texts, text)
	}
	return texts
}

func parsed(t *testing.T, text string) (o object) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte(text), &o), "%s", text)
	return o
}

// files returns the YAML files of the page, by what they are.
func files(t *testing.T) map[string]object {
	t.Helper()
	all := make(map[string]object)
	for _, block := range fence.FindAllStringSubmatch(here().read(t, deploying), -1) {
		if block[1] != "yaml" {
			continue
		}
		o := parsed(t, block[2])
		kind, _ := o["kind"].(string)
		all[kind] = o
	}
	return all
}

// TestDeployingIsOfOnePiece checks the files of the guide's page as far as it goes without a container engine: that their parts fit each
// other, that a container may do no more than it needs, and that the command accepts the arguments.
func TestDeployingIsOfOnePiece(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the command")
	}
	all := files(t)
	require.Len(t, all, 3)
	compose, deployment, cron := all[""], all["Deployment"], all["CronJob"]
	rlock := filepath.Join(t.TempDir(), "rlock")
	_, err := here().run("cmd/rlock", nil, "go", "build", "-o", rlock, ".")
	require.NoError(t, err)
	accepted := func(args []string) {
		if at := slices.Index(args, "--"); at >= 0 {
			args = args[:at] // the rest is another program's
		}
		_, err := here().run(".", nil, rlock, append(slices.Clone(args), "--help")...)
		require.NoError(t, err)
	}

	service := compose.part(t, "services", "rlock")
	accepted(service.list(t, "command"))
	for name := range service.part(t, "depends_on") {
		compose.part(t, "services", name, "healthcheck")
		require.Contains(t, service.at(t, "environment", "REDIS_URL"), "//"+name+":")
	}
	mounted, _, _ := strings.Cut(compose.part(t, "services", "redis").list(t, "volumes")[0], ":")
	compose.part(t, "volumes", mounted)

	require.Equal(t, "apps/v1", deployment["apiVersion"])
	pod := deployment.part(t, "spec", "template")
	require.Equal(t, deployment.at(t, "spec", "selector", "matchLabels"), pod.at(t, "metadata", "labels"))
	page := safe(t, pod.part(t, "spec"))
	accepted(page.list(t, "args"))
	require.Equal(t, page.at(t, "ports", "0", "name"), page.at(t, "readinessProbe", "httpGet", "port"))
	require.Contains(t, page.list(t, "args"), ":7070")
	require.EqualValues(t, 7070, page.at(t, "ports", "0", "containerPort"))

	require.Equal(t, "batch/v1", cron["apiVersion"])
	job := cron.part(t, "spec", "jobTemplate", "spec", "template", "spec")
	require.Contains(t, []string{"Never", "OnFailure"}, job["restartPolicy"], "a Job accepts no other")
	accepted(safe(t, job).list(t, "args"))
}

// safe returns the only container of a pod, after checking what it may do.
func safe(t *testing.T, pod object) object {
	t.Helper()
	require.Equal(t, true, pod.at(t, "securityContext", "runAsNonRoot"))
	require.Equal(t, false, pod["automountServiceAccountToken"])
	container := pod.part(t, "containers", "0")
	require.Equal(t, false, container.at(t, "securityContext", "allowPrivilegeEscalation"))
	require.Equal(t, true, container.at(t, "securityContext", "readOnlyRootFilesystem"))
	require.Equal(t, []any{"ALL"}, container.at(t, "securityContext", "capabilities", "drop"))
	image, _ := container["image"].(string)
	require.Regexp(t, `:v\d`, image, "an image without a version changes by itself")
	return container
}

// TestBuildsNameWhatThereIs checks the files that build a release, of which most runs elsewhere: the variable of the version is in the source
// of the command, the programs and the version of Go are the same everywhere, and workflows call what is there.
func TestBuildsNameWhatThereIs(t *testing.T) {
	t.Parallel()
	r := here()
	build := parsed(t, r.read(t, ".goreleaser.yaml")).part(t, "builds", "0")
	require.Equal(t, "cmd/rlock", build["dir"])
	require.Equal(t, []string{"linux", "darwin", "windows"}, build.list(t, "goos"))
	require.Equal(t, []string{"amd64", "arm64"}, build.list(t, "goarch"))

	var platforms []string
	for _, goos := range build.list(t, "goos") {
		for _, goarch := range build.list(t, "goarch") {
			platforms = append(platforms, goos+"/"+goarch)
		}
	}
	require.Contains(t, r.read(t, "Makefile"), "\nPLATFORMS = "+strings.Join(platforms, " ")+"\n")

	dockerfile := r.read(t, "Dockerfile")
	set := regexp.MustCompile(`-X (\S+)/internal/cli\.(\w+)=`)
	require.Contains(t, r.read(t, "cmd/rlock/internal/cli/cli.go"), "\nvar "+set.FindStringSubmatch(dockerfile)[2]+" string\n")
	require.Equal(t, set.FindString(dockerfile), set.FindString(strings.Join(build.list(t, "ldflags"), " ")))

	golang := regexp.MustCompile(`golang:\S+`)
	for _, file := range []string{".github/workflows/ci.yml", ".github/workflows/release.yml"} {
		text := r.read(t, file)
		parsed(t, text).part(t, "jobs")
		require.Equal(t, golang.FindString(dockerfile), golang.FindString(text), file)
		for _, m := range regexp.MustCompile(`(?m)run: make (\S+)$`).FindAllStringSubmatch(text, -1) {
			require.Contains(t, r.read(t, "Makefile"), "\n"+m[1]+":")
		}
	}
	require.Contains(t, r.read(t, ".github/workflows/ci.yml"), "run: .ci/run\n")
	for _, file := range []string{"fault.yml", "wish.yml", "config.yml"} {
		require.NotEmpty(t, parsed(t, r.read(t, ".github/ISSUE_TEMPLATE/"+file)), file)
	}
}
