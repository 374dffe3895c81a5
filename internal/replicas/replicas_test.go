package replicas

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/clock"
)

const start = clock.Instant(1e12)

// set is a Set with one master, at a time.
type set struct {
	*testing.T
	Set
	now  clock.Instant
	plan Plan
}

// says is a master with replicas that have acknowledged so much.
func says(id string, offset int64, acked ...int64) *Info {
	return &Info{Master: true, ID: id, Offset: offset, Acked: acked}
}

func (s *set) plans(wait int, asks bool) {
	s.Helper()
	s.plan = s.Plan("a", s.now)
	require.Equal(s, wait, s.plan.Wait, "waits")
	require.Equal(s, asks, s.plan.Asks, "asks")
}

func (s *set) judges(waited, acked int, said *Info, want Verdict, news News) {
	s.Helper()
	s.plan.Wait = waited
	v, n := s.Judge("a", s.plan, acked, said, false, s.now)
	require.Equal(s, want, v)
	require.Equal(s, news, n)
}

func newSet(t *testing.T) *set {
	t.Helper()
	return &set{T: t, now: start}
}

// two returns a set whose master has two replicas.
func two(t *testing.T) *set {
	t.Helper()
	s := newSet(t)
	s.judges(2, 2, says("x", 10, 10, 10), Enough, Nothing)
	s.plans(2, false)
	return s
}

func TestTheFirstCallLearnsTheNumber(t *testing.T) {
	t.Parallel()
	s := newSet(t)
	s.plans(0, true)
	s.judges(0, 0, says("x", 10, 10, 10), Again, Nothing)
	s.plans(2, false)
	s.judges(2, 2, nil, Enough, Nothing)
}

// TestAMasterWithoutReplicas is asked each time, so that the first call after one connects waits for it.
func TestAMasterWithoutReplicas(t *testing.T) {
	t.Parallel()
	s := newSet(t)
	for range 3 {
		s.plans(0, true)
		s.judges(0, 0, says("x", 10), Enough, Nothing)
	}
	s.plans(0, true)
	s.judges(0, 0, says("x", 10, 10), Again, Nothing)
	s.plans(1, false)
}

func TestAReplicaThatConnects(t *testing.T) {
	t.Parallel()
	s := two(t)
	s.now = s.now.Add(asksEvery)
	s.plans(2, true)
	s.plans(2, false) // one call asks for all
	s.judges(2, 2, says("x", 20, 20, 20, 5), Again, Nothing)
	s.plans(3, false)
	s.judges(3, 3, nil, Enough, Nothing)
}

// TestWhatIsSaidBehindARefusal hides no failover.
func TestWhatIsSaidBehindARefusal(t *testing.T) {
	t.Parallel()
	s := two(t)
	s.Hear("a", says("x", 20, 20, 20, 20), s.now)
	s.plans(3, false)
	s.Hear("a", says("x", 20, 20), s.now)
	s.Hear("a", says("y", 20, 20, 1, 2, 3), s.now)
	s.plans(3, false)
	s.judges(3, 2, says("x", 20, 20, 20), TooFew, Nothing)
}

// TestWhatWasSaidBeforeComesLate has two calls ask, and the answer to the first one, from before a replica connected, arrives last.
func TestWhatWasSaidBeforeComesLate(t *testing.T) {
	t.Parallel()
	s := newSet(t)
	s.judges(1, 1, says("x", 10, 10), Enough, Nothing)
	late := Plan{Wait: 1, Asks: true}
	s.judges(1, 1, says("x", 30, 30, 5), Again, Nothing)
	s.plan = late
	s.judges(1, 1, says("x", 20, 20), Again, Nothing)
	s.judges(2, 1, says("x", 25, 25), TooFew, Nothing)
	s.Hear("a", says("x", 25, 25, 25, 25), s.now)
	s.plans(2, false)
	s.judges(2, 2, nil, Enough, Nothing)
	s.now = s.now.Add(failover)
	s.plans(2, true)
	s.judges(2, 2, says("x", 20, 20, 20, 20), Again, Nothing) // its data is another
	s.plans(3, false)
}

// TestAReplicaThatLeftBeforeAnOlderAnswerCame has the answer of a call show a replica that has not acknowledged it. By an answer to another call,
// which was made later and has come before, that replica has left: it may be the master now.
func TestAReplicaThatLeftBeforeAnOlderAnswerCame(t *testing.T) {
	t.Parallel()
	s := newSet(t)
	s.plans(0, true)
	first := s.plan
	s.judges(0, 0, says("x", 30), Enough, Nothing)
	s.plan = first
	s.judges(0, 0, says("x", 20, 20), TooFew, Nothing)

	s = newSet(t)
	s.judges(1, 1, says("x", 10, 10), Enough, Nothing)
	s.judges(1, 1, says("x", 30, 30), Enough, Nothing)
	s.judges(1, 1, says("x", 20, 20, 5), TooFew, Nothing)

	s = two(t)
	s.Doubt("a")
	s.plans(0, true)
	first = s.plan
	s.judges(0, 0, says("x", 30, 30), TooFew, Nothing)
	s.plan = first
	s.judges(0, 0, says("x", 20, 20, 20), TooFew, Nothing)
	s.plans(1, false)
	s.judges(1, 1, nil, Enough, Nothing)
}

// TestAReplicaThatLeaves may be the master now, so a call that it has not acknowledged does not count. The next call does.
func TestAReplicaThatLeaves(t *testing.T) {
	t.Parallel()
	s := two(t)
	s.judges(2, 1, nil, Unknown, Nothing)
	s.judges(2, 1, says("x", 20, 20), TooFew, Nothing)
	s.plans(1, false)
	s.judges(1, 0, nil, Unknown, Nothing)
	s.judges(1, 0, says("x", 30), TooFew, Nothing)
	s.plans(0, true)
	s.judges(0, 0, says("x", 30), Enough, Nothing)
}

// TestTwoCallsMeetAReplicaThatLeaves: the second one knows by then that there is one less, but it was sent before.
func TestTwoCallsMeetAReplicaThatLeaves(t *testing.T) {
	t.Parallel()
	s := two(t)
	first, second := s.Plan("a", s.now), s.Plan("a", s.now)
	for _, p := range []Plan{first, second} {
		v, _ := s.Judge("a", p, 1, says("x", 20, 20), true, s.now)
		require.Equal(t, TooFew, v)
	}
	s.plans(1, false)
	s.judges(1, 1, nil, Enough, Nothing)
}

func TestAReplicaThatLeavesOnceItHasAcknowledged(t *testing.T) {
	t.Parallel()
	s := two(t)
	s.judges(2, 2, says("x", 20, 20), Enough, Nothing)
	s.plans(1, false)
}

// TestAReplicaThatHasLeftLongAgo is no sign of a failover that is under way.
func TestAReplicaThatHasLeftLongAgo(t *testing.T) {
	t.Parallel()
	s := two(t)
	s.now = s.now.Add(failover)
	s.plans(2, true)
	s.judges(2, 1, says("x", 20, 20), Enough, Nothing)
}

// TestAReplicaThatHangs costs one call its time, and is waited for again once it has caught up.
func TestAReplicaThatHangs(t *testing.T) {
	t.Parallel()
	s := two(t)
	s.judges(2, 1, nil, Unknown, Nothing)
	s.judges(2, 1, says("x", 20, 20, 10), Enough, Hang)
	s.plans(1, false)
	for range 3 {
		s.now = s.now.Add(asksEvery)
		s.plans(1, true)
		s.judges(1, 1, says("x", 30, 30, 10), Enough, Nothing)
	}
	s.now = s.now.Add(asksEvery)
	s.judges(1, 1, says("x", 40, 40, 35), Again, Back)
	s.plans(2, false)
}

func TestAReplicaThatHangsAndLeaves(t *testing.T) {
	t.Parallel()
	s := two(t)
	s.judges(2, 1, says("x", 20, 20, 10), Enough, Hang)
	s.judges(1, 1, says("x", 30, 30), Enough, Back)
	s.plans(1, false)
}

// TestTheOnlyReplicaHangs: a lock that nobody else has is none.
func TestTheOnlyReplicaHangs(t *testing.T) {
	t.Parallel()
	s := newSet(t)
	s.judges(1, 1, says("x", 10, 10), Enough, Nothing)
	for range 2 {
		s.plans(1, false)
		s.judges(1, 0, nil, Unknown, Nothing)
		s.judges(1, 0, says("x", 20, 10), TooFew, Nothing)
	}
	s.judges(1, 1, nil, Enough, Nothing)
}

// TestAllReplicasHang, one after the other.
func TestAllReplicasHang(t *testing.T) {
	t.Parallel()
	s := two(t)
	s.judges(2, 1, says("x", 20, 20, 10), Enough, Hang)
	s.judges(1, 0, says("x", 30, 20, 10), TooFew, Nothing)
	s.plans(1, false)
}

// TestOnlyTheReplicaThatHangsIsLeft has the other one leave: it may be the master now.
func TestOnlyTheReplicaThatHangsIsLeft(t *testing.T) {
	t.Parallel()
	s := two(t)
	s.judges(2, 1, says("x", 20, 20, 10), Enough, Hang)
	s.judges(1, 0, says("x", 30, 10), TooFew, Nothing)
	for range 2 {
		s.plans(1, false)
		s.judges(1, 0, says("x", 40, 10), TooFew, Nothing)
	}
	s.judges(1, 1, nil, Enough, Nothing)
}

// TestAFailover has another master at the same address, which has fewer replicas.
func TestAFailover(t *testing.T) {
	t.Parallel()
	s := two(t)
	s.Doubt("a")
	s.plans(0, true)
	s.judges(0, 0, says("y", 20, 20), Again, Nothing)
	s.plans(1, false)
	s.judges(1, 1, nil, Enough, Nothing)
}

// TestAMasterThatWasCutOff has lost its replicas to the next master.
func TestAMasterThatWasCutOff(t *testing.T) {
	t.Parallel()
	s := two(t)
	s.Doubt("a")
	s.plans(0, true)
	s.judges(0, 0, says("x", 20), TooFew, Nothing)
}

// TestAnotherServerSaysSo because it was asked on a connection of its own: nothing is known of the one that has served the call.
func TestAnotherServerSaysSo(t *testing.T) {
	t.Parallel()
	for _, said := range []*Info{says("y", 20, 20), {}} {
		s := two(t)
		s.judges(2, 1, nil, Unknown, Nothing)
		v, n := s.Judge("a", s.plan, 1, said, true, s.now)
		require.Equal(t, TooFew, v)
		require.Equal(t, Nothing, n)
		s.plans(0, true)
	}
}

func TestTheServerIsAReplicaNow(t *testing.T) {
	t.Parallel()
	s := two(t)
	s.judges(2, 0, &Info{}, TooFew, Nothing)
	s.plans(0, true)
}

func TestParse(t *testing.T) {
	t.Parallel()
	i, ok := Parse("# Replication\r\nrole:master\r\nconnected_slaves:3\r\nslave0:ip=127.0.0.1,port=1,state=online,offset=70,lag=1\r\n" +
		"slave1:ip=::1,port=2,state=wait_bgsave,offset=0,lag=0\r\nslave2:ip=a,port=3,state=online,offset=56,lag=9,type=x\r\n" +
		"master_replid:b3c7\r\nmaster_replid2:0\r\nmaster_repl_offset:84\r\n")
	require.True(t, ok)
	require.Equal(t, says("b3c7", 84, 70, 56), &i)
	i, ok = Parse("role:slave\r\nmaster_host:a\r\nslave_repl_offset:7\r\nslave_priority:100\r\n")
	require.True(t, ok)
	require.False(t, i.Master)
	require.Empty(t, i.Acked)
	_, ok = Parse("# Clients\r\n")
	require.False(t, ok)
	for _, other := range []string{"ip=a,port=1,offset=70,lag=1", "ip=a,port=1,state=stable_sync,lag=0"} {
		_, ok = Parse("role:master\r\nconnected_slaves:1\r\nslave0:" + other + "\r\nmaster_repl_offset:84\r\n")
		require.False(t, ok, "a server that is not Redis: it would count as one without replicas")
	}
}

// TestMastersAreApart, as those of a cluster are.
func TestMastersAreApart(t *testing.T) {
	t.Parallel()
	s := two(t)
	s.Judge("b", s.Plan("b", s.now), 0, says("z", 1), false, s.now)
	s.plans(2, false)
	b := s.Plan("b", s.now.Add(time.Second))
	require.Zero(t, b.Wait)
	require.True(t, b.Asks)
}
