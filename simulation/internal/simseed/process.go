package simseed

// Process is goroutines and timers in a bubble that can be stopped, as a signal stops those of a process.
type Process struct {
	_ int // so that two of them have two addresses
}
