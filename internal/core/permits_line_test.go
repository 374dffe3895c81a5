package core_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/testkit"
)

// queue is waiters for permits of one semaphore, each of a client of its own, called by a letter.
type queue struct {
	*permits
	heard map[string]*redis.PubSub
}

// comes has waiters ask, and stand in the line: a2 wants two permits. Those in capitals do not listen.
func (q *queue) comes(waiters string) {
	q.Helper()
	for w := range strings.FieldsSeq(waiters) {
		if who := w[:1]; who == strings.ToLower(who) && q.heard[who] == nil {
			sub := q.rdb.Subscribe(q.Context(), q.channel(who))
			q.Cleanup(func() { _ = sub.Close() })
			_, err := sub.Receive(q.Context())
			require.NoError(q, err)
			q.heard[who] = sub
		}
		require.NotNil(q, q.run(q.waiter(w).Acquire("new", time.Minute, soon())).List, "%s has to wait", w)
	}
}

func (q *queue) waiter(w string) *core.Holder {
	name, _ := q.names.Keys[0].(string)
	return core.NewHolder(clientID(strings.ToLower(w[:1])), name, 7, int(w[1]-'0'))
}

func (q *queue) channel(who string) string {
	name, _ := q.names.Keys[0].(string)
	return "rlock:{" + name + "}:" + clientID(who)
}

// told returns what the waiters have heard, the time of Redis left out.
func (q *queue) told() string {
	q.Helper()
	var all []string
	for _, who := range []string{"a", "b", "c", "d"} {
		sub := q.heard[who]
		if sub == nil {
			continue
		}
		require.NoError(q, q.rdb.Publish(q.Context(), q.channel(who), "end").Err())
		for m := testkit.Within(q, who, sub.Channel()); m.Payload != "end"; m = testkit.Within(q, who, sub.Channel()) {
			words := strings.Fields(m.Payload)
			if words[0] == "6" {
				words = []string{"has", words[5], "for", words[3]}
			} else {
				words = []string{"first"}
			}
			all = append(all, fmt.Sprint(who, " ", strings.Join(words, " ")))
		}
	}
	return strings.Join(all, ", ")
}

// TestPermitsGoToTheFirstInTheLine checks to whom a release gives permits.
func TestPermitsGoToTheFirstInTheLine(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	for _, one := range []struct {
		claim         string
		total, gives  int
		comes, told   string
		free, waiting int64
	}{
		{"as many as there are", 3, 2, "a1 b1 c1", "a has 1 for 3000, b has 1 for 3000", 0, 1},
		{"who does not listen is passed over", 3, 2, "A1 b1 C1 d1", "b has 1 for 3000, d has 1 for 3000", 0, 0},
		{"who wants more stops those behind it", 3, 1, "a2 b1", "", 1, 2},
		{"who wants more than there are does not", 3, 1, "a4 b1", "b has 1 for 3000", 0, 1},
		{"permits come together", 3, 3, "a3 b1", "a has 3 for 3000", 0, 1},
	} {
		t.Run(one.claim, func(t *testing.T) {
			t.Parallel()
			q := &queue{newPermits(t, rdb, testkit.NewName(), "f"), make(map[string]*redis.PubSub)}
			q.run(q.calls.SetUp(1, int64(one.total), 0))
			gives := q.holder(1, one.gives)
			require.Nil(t, q.run(gives.Acquire("try", time.Minute, soon())).List)
			if rest := one.total - one.gives; rest > 0 {
				require.Nil(t, q.run(q.holder(2, rest).Acquire("try", time.Minute, soon())).List)
			}
			q.comes(one.comes)
			require.NotNil(t, q.run(q.holder(3, 1).Acquire("try", time.Minute, soon())).List, "a newcomer overtakes nobody")
			require.EqualValues(t, 1, q.run(gives.Release()).N)
			require.Equal(t, one.told, q.told())
			require.Equal(t, one.free, q.state()[0])
			name, _ := q.names.Keys[0].(string)
			require.Equal(t, one.waiting, rdb.ZCard(t.Context(), "rlock:{"+name+"}").Val())
			require.Zero(t, q.run(gives.Release()).N, "once more gives nothing")
			require.Equal(t, one.free, q.state()[0])
		})
	}
}
