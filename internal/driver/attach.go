package driver

import "time"

// Config has the settings with which a driver is made.
type Config struct {
	// CommandTimeout bounds how long one command may go without a reply.
	CommandTimeout time.Duration
	// Batches means that the driver reserves connections for pipelines of gathered calls, if there are enough.
	Batches bool
	// Acks means that calls wait for replicas, see [Acks].
	Acks bool
}

// Open makes a driver. It sends nothing. Its error matches [fault.ErrInvalidOption] if the client library's client cannot keep a
// lock.
type Open func(Config) (Driver, error)

// attach is the root package's. This package cannot name its types.
var attach func(open Open, options any) (client any, err error)

// Attach makes a *rlock.Client on a driver, given a []rlock.Option. Modules that bring a driver call it.
func Attach(open Open, options any) (client any, err error) { return attach(open, options) }

// Provide sets what Attach does. Only the root package calls it, while it is initialized.
func Provide(f func(open Open, options any) (client any, err error)) struct{} {
	attach = f
	return struct{}{}
}
