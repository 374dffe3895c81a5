package analyzers_test

import (
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/go-rlock/rlock/rlockvet/analyzers"
)

func TestContext(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, analysistest.TestData(), analyzers.Context, "ctx")
}

func TestHandle(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, analysistest.TestData(), analyzers.Handle, "handle")
}

func TestHold(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, analysistest.TestData(), analyzers.Hold, "hold")
}

func TestOwner(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, analysistest.TestData(), analyzers.Owner, "owner")
}

func TestToken(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, analysistest.TestData(), analyzers.Token, "token")
}

func TestUnlock(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, analysistest.TestData(), analyzers.Unlock, "unlock")
}

// TestFixes makes the changes that the analyzers suggest.
func TestFixes(t *testing.T) {
	t.Parallel()
	for _, a := range []*analysis.Analyzer{analyzers.Context, analyzers.Owner} {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			analysistest.RunWithSuggestedFixes(t, analysistest.TestData(), a, "fix/"+a.Name)
		})
	}
}

// TestNothingIsFoundInTheDocuments runs all analyzers over the code of the guide, in one pass: each pass would load all packages again.
func TestNothingIsFoundInTheDocuments(t *testing.T) {
	t.Parallel()
	every := &analysis.Analyzer{Name: "every", Doc: "runs all analyzers", Run: func(pass *analysis.Pass) (any, error) {
		for _, a := range analyzers.All() {
			one := *pass
			one.Analyzer = a
			if _, err := a.Run(&one); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}}
	for _, a := range analyzers.All() {
		every.Requires = append(every.Requires, a.Requires...)
	}
	analysistest.Run(t, analysistest.TestData(), every, "guide")
}

func TestFindingsAreIgnored(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, analysistest.TestData(), analyzers.Hold, "ignore")
}
