// Package virtual is what tests in virtual time stand on: the network in memory, the simulated servers, and the seed. It is outside of
// internal because the tests of the root module use it, by simulation/internal/suites/host.go.
package virtual

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/google/uuid"

	"github.com/go-rlock/rlock/internal/testkit/simredis"
	"github.com/go-rlock/rlock/simulation/internal/memnet"
	"github.com/go-rlock/rlock/simulation/internal/simseed"
	"github.com/go-rlock/rlock/simulation/internal/simserver"
)

// SeedEnv is the environment variable with the seed of the tests.
const SeedEnv = "RLOCK_SEED"

const (
	// latency is the longest time that a transmission takes.
	latency = 100 * time.Microsecond
	// linger is how long a client library may need to end its goroutines.
	linger = time.Minute
)

// trace is the digest of all commands of this process with their times.
var trace = struct {
	sync.Mutex
	hash hash.Hash64
}{hash: fnv.New64a()}

// record adds a command to the trace.
func record(id int64, args []string) {
	trace.Lock()
	defer trace.Unlock()
	_ = binary.Write(trace.hash, binary.LittleEndian, []int64{time.Now().UnixNano(), id})
	_, _ = fmt.Fprintf(trace.hash, "%q", args)
}

// Main has each test of a package begin with the seed, in the bubble that package testing of the overlay makes.
func Main(m *testing.M) {
	// The collector would run whenever it likes, so a test does without.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(1 << 30)
	seed, _ := strconv.ParseUint(os.Getenv(SeedEnv), 10, 64)
	if seed == 0 {
		seed = 1 + rand.Uint64N(1e9)
	}
	tests := (*[]testing.InternalTest)(unsafe.Pointer(reflect.ValueOf(m).Elem().FieldByName("tests").UnsafeAddr()))
	for i := range *tests {
		test := &(*tests)[i]
		run := test.F
		test.F = func(t *testing.T) {
			t.Helper()
			begin(t, seed)
			run(t)
		}
	}
}

func begin(t *testing.T, seed uint64) {
	t.Helper()
	simseed.Seed(seed)
	memnet.Latency = latency
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	uuid.SetRand(rand.NewChaCha8(key))
	t.Cleanup(func() {
		time.Sleep(linger)
		t.Logf("seed %d: trace %x", seed, trace.hash.Sum64())
	})
}

// Listen listens on a free port.
func Listen() (net.Listener, error) { return memnet.Listen(memnet.NewPort()) }

// Dial connects.
func Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return memnet.DialContext(ctx, network, addr)
}

// Server is a simulated server.
type Server struct {
	*simserver.Server
	snapshots []*simredis.DB
}

// Start starts a server.
func Start() *Server { return &Server{Server: simserver.Start(record)} }

// Port returns where it listens.
func (s *Server) Port() int { return s.Server.Port }

// Snapshot returns the name of a copy of the data, for Restore.
func (s *Server) Snapshot() []byte {
	s.snapshots = append(s.snapshots, s.Data())
	return []byte(strconv.Itoa(len(s.snapshots) - 1))
}

// Restore kills the server, and starts it again with what a snapshot has.
func (s *Server) Restore(snapshot []byte) {
	i, err := strconv.Atoi(string(snapshot))
	if err != nil {
		panic(err)
	}
	s.Restart(s.snapshots[i])
}
