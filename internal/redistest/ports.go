package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// given records the ports that freePort has returned, because two tests may ask before either listens.
var given sync.Map

// busOffset is how much higher the port of the cluster bus is than that of its server.
const busOffset = 10000

// freePort returns a port that is free, like its cluster bus port. Both are below the range that the system uses for outgoing
// connections. The tests open many of those, and one on a server's port would keep the server from starting. No other test
// gets these ports until this one ends, in this process or in another: `go test ./...` runs several side by side.
func freePort(tb testing.TB) int {
	tb.Helper()
	for range 1000 {
		port := 10000 + rand.IntN(12000)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		bus := port + busOffset
		if reserved := reserve(port, bus); reserved != nil {
			if free(port) && free(bus) {
				tb.Cleanup(reserved)
				return port
			}
			reserved()
		}
	}
	tb.Fatal("no free port")
	return 0
}

func free(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

// reserve reserves ports across processes: it locks a file for each. It returns a function that gives them back, or nil if
// another process has one of them. The kernel gives back the ports of a process that ends.
func reserve(ports ...int) (giveBack func()) {
	var files []*os.File
	giveBack = func() {
		for _, file := range files {
			_ = file.Close()
		}
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("rlock-test-ports-%d", os.Getuid()))
	_ = os.Mkdir(dir, 0o700) // it may exist; the next line says what is wrong
	for _, port := range ports {
		file, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(port)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			giveBack()
			return nil
		}
		files = append(files, file)
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			giveBack()
			return nil
		}
	}
	return giveBack
}
