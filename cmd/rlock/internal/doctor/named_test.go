package doctor

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/fault"
	"github.com/go-rlock/rlock/internal/wire"
)

// TestTheErrorsOfTheLibraryNameKindsThatThisKnows takes the flags that an error of a missing right has for each kind.
func TestTheErrorsOfTheLibraryNameKindsThatThisKnows(t *testing.T) {
	t.Parallel()
	kinds := []*wire.Kind{wire.Permit, wire.PlainPermit, wire.CountDown}
	for _, kind := range wire.Kinds {
		kinds = append(kinds, kind)
	}
	flag := regexp.MustCompile(`run: rlock doctor --kinds ('[^']+'|\S+)\)`)
	denied := &fault.Error{Code: "NOPERM", Err: errors.New("NOPERM")}
	for _, kind := range kinds {
		found := flag.FindStringSubmatch(denied.Of(kind.Name(), "a", "a").Error())
		require.Len(t, found, 2, kind.Name())
		require.NoError(t, Options{Kinds: []string{strings.Trim(found[1], "'")}}.check(), kind.Name())
	}
}
