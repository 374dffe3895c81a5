package rlock

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/wire"
)

// Identity describes a client to people who inspect a lock: see [WithIdentity]. Fields with the zero value are not stored.
type Identity struct {
	Service string    // such as the name of the program
	Host    string    // such as the name of the machine, or of the pod
	Version string    // of the program
	PID     int       // of the process
	Started time.Time // when the process started; milliseconds are kept
}

// maxIdentity is how long a text of an identity may be, in bytes.
const maxIdentity = 256

// WithIdentity stores an identity of the client in Redis, which [Lock.Inspect] shows beside the holds and waits of the client. The default
// is none: nothing is stored. [AutoIdentity] describes the current process.
//
// The key is a hash, rlock_client:{<16 digits of the client's id>}, which anybody who may read it sees. It is written in the background
// with the first acquisition, refreshed while the client holds or waits for something, and expires three watchdog timeouts after that, even
// if a lock with a longer [Lease] outlives it. It delays and fails no acquisition: if Redis does not let the user write it, rlock logs that.
//
// A text of more than 256 bytes, a negative PID, and an identity without any field are refused with [ErrInvalidOption].
func WithIdentity(id Identity) Option {
	return option(func(s *settings) error {
		for _, text := range []struct{ what, value string }{{"service", id.Service}, {"host", id.Host}, {"version", id.Version}} {
			if n := len(text.value); n > maxIdentity {
				return fmt.Errorf("%w: the %s of the identity has %d bytes, more than %d", ErrInvalidOption, text.what, n, maxIdentity)
			}
		}
		if id.PID < 0 {
			return fmt.Errorf("%w: the PID of the identity is %d", ErrInvalidOption, id.PID)
		}
		fields := wire.Identity{id.Service, id.Host, id.Version}
		if id.PID > 0 {
			fields[3] = strconv.Itoa(id.PID)
		}
		if !id.Started.IsZero() {
			fields[4] = strconv.FormatInt(id.Started.UnixMilli(), 10)
		}
		if fields == (wire.Identity{}) {
			return fmt.Errorf("%w: the identity is empty", ErrInvalidOption)
		}
		s.Identity = &fields
		return nil
	})
}

// started is when this package was initialized, which is soon after the process started.
var started = time.Now()

// AutoIdentity returns the identity of this process: the name of the program, the host's name, the version with which the program's
// module was built, the process id, and about when the process started. What is not known is left out, and a long text is cut.
func AutoIdentity() Identity {
	id := Identity{PID: os.Getpid(), Started: started}
	id.Host, _ = os.Hostname()
	if len(os.Args) > 0 {
		id.Service = filepath.Base(os.Args[0])
	}
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "(devel)" {
		id.Version = build.Main.Version
	}
	for _, text := range []*string{&id.Service, &id.Host, &id.Version} {
		*text = strings.ToValidUTF8((*text)[:min(len(*text), maxIdentity)], "")
	}
	return id
}

// identityOf returns an identity that Redis has, or nil if it says nothing.
func identityOf(fields wire.Identity) *Identity {
	if fields == (wire.Identity{}) {
		return nil
	}
	return &Identity{Service: fields[0], Host: fields[1], Version: fields[2], PID: fields.PID(), Started: fields.Started()}
}
