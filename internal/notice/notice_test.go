package notice

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
	"github.com/go-rlock/rlock/observe"
)

// receiver notes what it is told, in order.
type receiver struct{ told []string }

func (r *receiver) Alarm(clock.Instant) { r.told = append(r.told, "alarm") }
func (r *receiver) Unlisten(channel string, _ chan struct{}) {
	r.told = append(r.told, "unlisten "+channel)
}
func (r *receiver) Watch(channel, _ string)   { r.told = append(r.told, "watch "+channel) }
func (r *receiver) Unwatch(channel, _ string) { r.told = append(r.told, "unwatch "+channel) }
func (r *receiver) Pump(channel string, _ time.Duration) {
	r.told = append(r.told, "pump "+channel)
}
func (r *receiver) Log(l Entry) { r.told = append(r.told, l.Message.Level.String()+" "+l.Lock) }

var errOver = errors.New("over")

func TestNoticesAreDeliveredInOrder(t *testing.T) {
	t.Parallel()
	var r receiver
	var e Ending
	over := e.Done()
	require.NoError(t, e.Notify(func(why error) {
		require.ErrorIs(t, why, errOver)
		select {
		case <-over:
			t.Error("the channel is closed before the context ends")
		default:
		}
		r.told = append(r.told, "cancel")
	}))
	var l Listener
	require.True(t, l.On("channel"))
	require.False(t, l.On("channel"), "it listens already")

	var n List
	n.Alarm(1)
	n.Log("name", LogLost, nil)
	n.Report(observe.EventRenewalRecovered, "other", LogRenewed, nil)
	n.Unlisten(&l)
	require.True(t, e.End(errOver, &n))
	require.False(t, e.End(errors.New("later"), &n))
	require.Empty(t, r.told, "nothing is told before Deliver")
	n.Deliver(&r)
	require.Equal(t, []string{"alarm", "cancel", "unlisten channel", "WARN name", "INFO other"}, r.told)
	<-over
	require.Equal(t, List{}, n)
	require.Equal(t, Listener{}, l)
	n.Deliver(&r)
	require.Len(t, r.told, 5, "notices are told once")
}

func TestAnEndThatIsPast(t *testing.T) {
	t.Parallel()
	var e Ending
	var n List
	require.NoError(t, e.Err())
	e.End(errOver, &n)
	require.Equal(t, List{}, n, "nobody asked")
	require.ErrorIs(t, e.Err(), errOver)
	<-e.Done()
	require.ErrorIs(t, e.Notify(func(error) { t.Error("the caller knows already") }), errOver)
}

// alarms notes when an alarm is asked for.
type alarms struct {
	receiver

	at clock.Instant
}

func (a *alarms) Alarm(at clock.Instant) { a.at = at }

func TestTheSoonestAlarmCounts(t *testing.T) {
	t.Parallel()
	for _, all := range [][]clock.Instant{{3, 5}, {5, 3}, {3, 0}, {0, 3}} {
		var n List
		var a alarms
		for _, at := range all {
			n.Alarm(at)
		}
		n.Deliver(&a)
		require.EqualValues(t, 3, a.at)
	}
}
