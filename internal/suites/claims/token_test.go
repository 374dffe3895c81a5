package claims

import (
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
)

func TestTokenValue(t *testing.T) {
	t.Parallel()
	for token, want := range map[rlock.Token]string{
		0:                 "rlock: the fencing token is 0: the hold has no token",
		math.MaxInt64 + 1: "rlock: fencing token 9223372036854775808 exceeds an int64",
		math.MaxUint64:    "rlock: fencing token 18446744073709551615 exceeds an int64",
	} {
		value, err := token.Value()
		require.EqualError(t, err, want)
		require.Nil(t, value)
	}
}

// FuzzToken writes a token as database/sql does, and reads it again. No value of a token becomes another one, or a fence
// without a token.
func FuzzToken(f *testing.F) {
	for _, n := range []uint64{0, 1, 41, 1 << 53, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n uint64) {
		token := rlock.Token(n)
		value, err := driver.DefaultParameterConverter.ConvertValue(token)
		if n == 0 || n > math.MaxInt64 {
			require.Error(t, err)
			require.Nil(t, value)
		} else {
			require.NoError(t, err)
			require.Equal(t, int64(n), value)
			for _, column := range []any{value, []byte(fmt.Sprint(n)), fmt.Sprint(n)} {
				var read sql.Null[rlock.Token]
				require.NoError(t, read.Scan(column))
				require.Equal(t, token, read.V)
			}
		}
		require.Equal(t, fmt.Sprint(n), fmt.Sprint(token))
		raw, err := json.Marshal(map[string]rlock.Token{"token": token})
		require.NoError(t, err)
		require.JSONEq(t, fmt.Sprintf(`{"token":%d}`, n), string(raw))
		var read struct{ Token rlock.Token }
		require.NoError(t, json.Unmarshal(raw, &read))
		require.Equal(t, token, read.Token)
	})
}
