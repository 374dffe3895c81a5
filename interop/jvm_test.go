package interop_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// jvm is a process that runs the Java program. It contains many Redisson clients; each acts like a process of its own.
type jvm struct {
	version version

	cmd    *exec.Cmd
	stderr *recorder
	ready  chan struct{} // closed when it accepts requests
	ended  chan struct{} // closed when the process has ended

	mu      sync.Mutex
	in      io.Writer
	last    int64 // the id of the last request
	dead    bool
	pending map[int64]func(json.RawMessage, error)
}

// request is a line of the JVM's input. Durations are in milliseconds.
type request struct {
	ID     int64    `json:"id"`
	Op     string   `json:"op"`
	Client string   `json:"client,omitempty"`
	Thread *int     `json:"thread,omitempty"`
	Kind   string   `json:"kind,omitempty"`
	Names  []string `json:"names,omitempty"`

	Wait          *int64 `json:"wait,omitempty"`
	Lease         *int64 `json:"lease,omitempty"`
	ThreadID      *int64 `json:"threadId,omitempty"`
	Interruptibly bool   `json:"interruptibly,omitempty"`

	Addresses []string       `json:"addresses,omitempty"`
	Settings  map[string]any `json:"settings,omitempty"`

	Threads int    `json:"threads,omitempty"`
	Readers int    `json:"readers,omitempty"`
	Counter string `json:"counter,omitempty"`
	Count   int64  `json:"count,omitempty"`
	MS      int64  `json:"ms,omitempty"`
	Warmup  int64  `json:"warmup,omitempty"`
	Me      string `json:"me,omitempty"`
	Hold    int64  `json:"hold,omitempty"`
}

// line is a line of the JVM's output. The first line reports that it is ready; the others are replies.
type line struct {
	Ready   bool            `json:"ready"`
	Version string          `json:"version"`
	ID      int64           `json:"id"`
	Value   json.RawMessage `json:"value"`
	Error   string          `json:"error"`
	Message string          `json:"message"`
}

// javaError is an exception.
type javaError struct {
	Class   string // the simple name
	Message string
}

func (e *javaError) Error() string { return e.Class + ": " + e.Message }

// isJava reports whether an error is an exception of a class.
func isJava(err error, class string) bool {
	var e *javaError
	return errors.As(err, &e) && e.Class == class
}

// isInterrupted reports whether an error comes from an interrupt of the thread, in its wait or in a command.
func isInterrupted(err error) bool {
	var e *javaError
	return errors.As(err, &e) && (e.Class == "InterruptedException" || strings.Contains(e.Message, "InterruptedException"))
}

var errEnded = errors.New("the JVM has ended")

// shared holds the JVMs that the tests share, one per version. A JVM starts when it is first used.
var shared struct {
	sync.Mutex
	jvms map[version]*jvm
}

// sharedJVM returns the shared JVM of a version. No test may kill it.
func sharedJVM(tb testing.TB, v version) *jvm {
	tb.Helper()
	needJava(tb, v)
	shared.Lock()
	j, ok := shared.jvms[v]
	if !ok {
		var err error
		if j, err = startJVM(v); err != nil {
			shared.Unlock()
			tb.Fatal(err)
		}
		if shared.jvms == nil {
			shared.jvms = make(map[version]*jvm)
		}
		shared.jvms[v] = j
	}
	shared.Unlock()
	j.awaitReady(tb)
	return j
}

func killShared() {
	shared.Lock()
	defer shared.Unlock()
	for _, j := range shared.jvms {
		j.Kill()
	}
}

// newJVM returns a JVM of the test's own, which the test may kill. It ends with the test.
func newJVM(tb testing.TB, v version) *jvm {
	tb.Helper()
	needJava(tb, v)
	j, err := startJVM(v)
	require.NoError(tb, err)
	tb.Cleanup(j.Kill)
	j.awaitReady(tb)
	return j
}

func startJVM(v version) (*jvm, error) {
	out := outputOf(v)
	classes := filepath.Join(out, "classes") + string(filepath.ListSeparator) + filepath.Join(out, "lib", "*")
	options := []string{"-Xmx256m", "-XX:+UseSerialGC"}
	if !measures() {
		options = append(options, "-XX:TieredStopAtLevel=1") // a JVM of a test ends before the optimizing compiler has paid for itself
	}
	j := &jvm{
		version: v,
		cmd:     exec.Command("java", append(options, "-cp", classes, "rlock.interop.Main")...),
		stderr:  &recorder{},
		ready:   make(chan struct{}),
		ended:   make(chan struct{}),
		pending: make(map[int64]func(json.RawMessage, error)),
	}
	j.cmd.Stderr = j.stderr
	in, err := j.cmd.StdinPipe() // the JVM ends with its input, so also if the tests crash
	if err != nil {
		return nil, err
	}
	lines, err := j.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	j.in = in
	if err := j.cmd.Start(); err != nil {
		return nil, err
	}
	go j.read(lines)
	return j, nil
}

func (j *jvm) awaitReady(tb testing.TB) {
	tb.Helper()
	select {
	case <-j.ready:
	case <-j.ended:
		tb.Fatalf("%v: %s", errEnded, j.stderr)
	case <-time.After(2 * aLongTime): // many JVMs start at once, on few cores
		tb.Fatalf("the JVM does not start: %s", j.stderr)
	}
}

// Kill kills the process, as an operator or the kernel would.
func (j *jvm) Kill() {
	_ = j.cmd.Process.Kill()
	<-j.ended
}

// read dispatches the replies to their callers.
func (j *jvm) read(out io.Reader) {
	defer close(j.ended)
	in := bufio.NewScanner(out)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var said line
		switch err := json.Unmarshal(in.Bytes(), &said); {
		case err != nil:
			fmt.Fprintf(j.stderr, "not a reply: %q: %v\n", in.Text(), err)
		case said.Ready && said.Version != string(j.version):
			fmt.Fprintf(j.stderr, "wanted Redisson %s, got %s\n", j.version, said.Version)
			_ = j.cmd.Process.Kill()
		case said.Ready:
			close(j.ready)
		case said.Error != "":
			j.settle(said.ID, nil, &javaError{Class: said.Error, Message: said.Message})
		default:
			j.settle(said.ID, said.Value, nil)
		}
	}
	_ = j.cmd.Wait()
	j.mu.Lock()
	j.dead = true
	left := j.pending
	j.pending = nil
	j.mu.Unlock()
	for _, then := range left {
		then(nil, fmt.Errorf("%w: %s", errEnded, j.stderr))
	}
}

func (j *jvm) settle(id int64, value json.RawMessage, err error) {
	j.mu.Lock()
	then := j.pending[id]
	delete(j.pending, id)
	j.mu.Unlock()
	if then != nil {
		then(value, err)
	}
}

// send sends a request. It calls then with the reply.
func (j *jvm) send(r request, then func(json.RawMessage, error)) {
	err := j.write(r, then)
	if err != nil {
		then(nil, err)
	}
}

func (j *jvm) write(r request, then func(json.RawMessage, error)) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.dead {
		return errEnded
	}
	j.last++
	r.ID = j.last
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	j.pending[r.ID] = then
	if _, err := j.in.Write(append(text, '\n')); err != nil {
		delete(j.pending, r.ID)
		return fmt.Errorf("%w: %w", errEnded, err)
	}
	return nil
}

// result is the value or the error of a request.
type result[T any] struct {
	Value T
	Err   error
}

// nothing is the value of a request without a result.
type nothing struct{}

// ask sends a request and returns a channel for the result. The request is sent when ask returns, so that requests of one
// thread keep their order.
func ask[T any](j *jvm, r request) <-chan result[T] {
	done := make(chan result[T], 1)
	j.send(r, func(value json.RawMessage, err error) {
		var got result[T]
		if got.Err = err; err == nil {
			got.Err = json.Unmarshal(value, &got.Value)
		}
		done <- got
	})
	return done
}

// await waits for a result, with a timeout.
func await[T any](done <-chan result[T], atMost time.Duration) (T, error) {
	select {
	case got := <-done:
		return got.Value, got.Err
	case <-time.After(atMost):
		var none T
		return none, fmt.Errorf("no reply from Java within %v", atMost)
	}
}
