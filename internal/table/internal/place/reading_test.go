package place

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzGranted moves Redis's clock between a refusal and a grant whose message is late. All times are µs: from the question to its
// execution, from there to the grant, from there to the message, and for how long that is kept. Redis's clock runs faster by a part
// of drift in 100.
func FuzzGranted(f *testing.F) {
	const unix = 1_700_000_000_000_000
	f.Add(uint32(200), uint32(900_000), uint32(300), uint32(0), int32(0), int8(0), uint16(3000))
	f.Add(uint32(200), uint32(5_000_000), uint32(300), uint32(0), int32(0), int8(100), uint16(3000))
	f.Add(uint32(200), uint32(5_000_000), uint32(300), uint32(0), int32(0), int8(-100), uint16(3000))
	f.Add(uint32(100), uint32(1_000), uint32(0), uint32(0), int32(15_000), int8(0), uint16(3000))
	f.Add(uint32(100), uint32(1_000), uint32(2_000_000), uint32(0), int32(1_900_000), int8(0), uint16(3000))
	f.Add(uint32(100), uint32(1_000), uint32(2_000_000), uint32(0), int32(2_015_000), int8(0), uint16(3000))
	f.Add(uint32(100), uint32(900_000), uint32(2_000_000), uint32(0), int32(-500_000), int8(0), uint16(3000))
	f.Add(uint32(100), uint32(900_000), uint32(10), uint32(0), int32(-1_000_000), int8(0), uint16(3000))
	f.Add(uint32(0), uint32(0), uint32(0), uint32(0), int32(0), int8(0), uint16(1))
	f.Add(uint32(200), uint32(900_000), uint32(300), uint32(500_000), int32(0), int8(0), uint16(3000))
	f.Add(uint32(200), uint32(900_000), uint32(300), uint32(2_990_000), int32(0), int8(0), uint16(3000))
	f.Fuzz(func(t *testing.T, asking, waiting, arriving, keeping uint32, step int32, fast int8, ms uint16) {
		span := func(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }
		term := span(int64(ms) * 1000)
		granted := start.Add(span(int64(asking) + int64(waiting)))
		arrived := granted.Add(span(int64(arriving)))
		now := arrived.Add(span(int64(keeping)))
		passed := int64(waiting) + int64(waiting)*drift*int64(max(fast, -100)%101)/10_000
		at, ok := Reading{Sent: start, Micros: unix}.Granted(unix+passed+int64(step), term, arrived, now)

		slack := span(int64(asking) + int64(waiting)*2*drift/100 + 1) // by which Granted is cautious
		ahead, late := span(int64(step)), span(int64(arriving))
		if !ok {
			require.False(t, step == 0 && slack+late+span(int64(keeping)) < term/4, "a message that comes in time is relied on")
			return
		}
		require.LessOrEqual(t, at, arrived)
		require.LessOrEqual(t, now.Sub(at), term/4, "most of the term is left")
		require.GreaterOrEqual(t, at, start, "it was refused before")
		require.LessOrEqual(t, at.Sub(granted), max(ahead, 0), "without a step forward, it never begins too late")
		require.LessOrEqual(t, ahead-ahead*drift/100, late+slack, "a step by more than the message is late is noticed")
	})
}

// TestGrantedBeyondAllTimes has a message say what no server does.
func TestGrantedBeyondAllTimes(t *testing.T) {
	t.Parallel()
	for _, micros := range []int64{0, math.MaxInt64, math.MinInt64, math.MaxInt64 / 1000 * 2} {
		for _, seen := range []int64{0, 1, math.MaxInt64} {
			for _, lasting := range []time.Duration{0, math.MaxInt64} {
				at, ok := Reading{Sent: start, Micros: seen}.Granted(micros, lasting, start.Add(time.Second), start.Add(time.Second))
				require.False(t, ok && (at < start || at > start.Add(time.Second)), "%d %d %v: %v", micros, seen, lasting, at)
			}
		}
	}
}
