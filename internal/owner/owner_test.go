package owner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAValueIsMadeOnce(t *testing.T) {
	t.Parallel()
	var o Owner
	require.Nil(t, o.Attached("key"))
	require.Equal(t, 1, o.Value("key", func() any { return 1 }))
	require.Equal(t, 1, o.Value("key", func() any { return 2 }))
	require.Equal(t, 1, o.Attached("key"))
	require.Equal(t, 1, o.Len())
}

func TestOnlyTheValueThatIsThereIsDetached(t *testing.T) {
	t.Parallel()
	var o Owner
	o.Detach("key", 1)
	o.Attach("key", 1)
	o.Attach("key", 2)
	o.Detach("key", 1)
	require.Equal(t, 2, o.Attached("key"))
	o.Detach("key", 2)
	require.Zero(t, o.Len())
}
