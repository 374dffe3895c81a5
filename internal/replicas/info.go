package replicas

import (
	"strconv"
	"strings"
)

// Info is what a server says about its replication.
type Info struct {
	Master bool
	ID     string  // of the history of its writes: a failover begins another one
	Offset int64   // how much it has written
	Acked  []int64 // how much each of its replicas has acknowledged, of those that are connected and in step
}

// Have returns how many replicas have acknowledged all up to an offset.
func (i *Info) Have(offset int64) (n int) {
	for _, acked := range i.Acked {
		if acked >= offset {
			n++
		}
	}
	return n
}

// Parse reads the reply to INFO replication. It reports false for a text that does not say what the server is, or that speaks of replicas in
// other words than Redis does: then it is not known how many of them are in step.
func Parse(text string) (i Info, ok bool) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch {
		case name == "role":
			i.Master, ok = value == "master", true
		case name == "master_replid":
			i.ID = value
		case name == "master_repl_offset":
			i.Offset, _ = strconv.ParseInt(value, 10, 64)
		case strings.HasPrefix(name, "slave") && strings.HasPrefix(value, "ip="):
			_, rest, says := strings.Cut(value, ",offset=")
			if !says || !strings.Contains(value, ",state=") {
				return Info{}, false
			}
			offset, _, _ := strings.Cut(rest, ",")
			n, _ := strconv.ParseInt(offset, 10, 64)
			if strings.Contains(value, ",state=online,") {
				i.Acked = append(i.Acked, n)
			}
		}
	}
	return i, ok
}
