package cli

import (
	"encoding/base64"
	"time"
	"unicode/utf8"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
)

// rowOut is a row as JSON. Times are in ms. A lease of -1 means that there is none.
type rowOut struct {
	Name string `json:"name"`
	// NameBase64 is the name if it is no valid UTF-8, in which case Name cannot say it.
	NameBase64 string `json:"name_base64,omitempty"`
	Kind       string `json:"kind"`
	Mode       string `json:"mode,omitempty"`
	Holder     string `json:"holder,omitempty"`
	Holders    int    `json:"holders"`
	Kept       bool   `json:"kept,omitempty"` // it has no holder any more, and is taken until its lease ends
	Waiters    int    `json:"waiters"`
	// WaitingCalls and WaitingProcesses are absent if they are not known.
	WaitingCalls     *int `json:"waiting_calls,omitempty"`
	WaitingProcesses *int `json:"waiting_processes,omitempty"`

	LeaseMS  int64        `json:"lease_ms"`
	Token    uint64       `json:"token,omitempty"`
	Free     *int         `json:"free,omitempty"`
	Value    *int         `json:"value,omitempty"` // of a counter
	Client   string       `json:"client,omitempty"`
	Identity *identityOut `json:"identity,omitempty"`
}

type identityOut struct {
	Service string     `json:"service,omitempty"`
	Host    string     `json:"host,omitempty"`
	Version string     `json:"version,omitempty"`
	PID     int        `json:"pid,omitempty"`
	Started *time.Time `json:"started,omitempty"`
}

// detailsOut is all that show knows, as JSON.
type detailsOut struct {
	rowOut

	HolderList []holderOut `json:"holder_list"`
	WaiterList []waiterOut `json:"waiter_list"`
}

type holderOut struct {
	Holder       string       `json:"holder"`
	Client       string       `json:"client,omitempty"`
	Mode         string       `json:"mode,omitempty"`
	Acquisitions int          `json:"acquisitions,omitempty"`
	Kept         bool         `json:"kept,omitempty"`
	LeaseMS      int64        `json:"lease_ms"`
	Expired      bool         `json:"expired,omitempty"`
	Identity     *identityOut `json:"identity,omitempty"`
}

type waiterOut struct {
	Client   string       `json:"client"`
	Since    *time.Time   `json:"since,omitempty"`
	Redisson bool         `json:"redisson,omitempty"`
	Identity *identityOut `json:"identity,omitempty"`
}

func rowJSON(r *catalog.Row) rowOut {
	out := rowOut{
		Name: r.Name, Kind: string(r.Kind), Mode: r.Mode, Holder: r.Holder, Holders: r.Holders, Waiters: r.Waiters,
		LeaseMS: millis(r.Lease), Token: uint64(r.Token), Client: r.Client, Identity: identityJSON(r.Identity), Kept: r.Kept,
	}
	calls, processes := r.Waiting()
	out.WaitingCalls, out.WaitingProcesses = known(calls), known(processes)
	if !utf8.ValidString(r.Name) {
		out.NameBase64 = base64.StdEncoding.EncodeToString([]byte(r.Name))
	}
	switch r.Kind {
	case catalog.Semaphore:
		out.Free = &r.Free
	case catalog.Counter:
		out.Value, out.Waiters = &r.Free, max(0, r.Waiters)
	}
	return out
}

func detailsJSON(d *catalog.Details) detailsOut {
	out := detailsOut{rowOut: rowJSON(&d.Row), HolderList: []holderOut{}, WaiterList: []waiterOut{}}
	for _, h := range d.HolderList {
		out.HolderList = append(out.HolderList, holderOut{
			h.Holder, h.Client, h.Mode, h.Acquisitions, h.Kept, millis(h.Lease), h.Expired, identityJSON(h.Identity),
		})
	}
	for _, w := range d.WaiterList {
		out.WaiterList = append(out.WaiterList, waiterOut{w.Client, moment(w.Since), w.Redisson, identityJSON(w.Identity)})
	}
	return out
}

func identityJSON(id *rlock.Identity) *identityOut {
	if id == nil {
		return nil
	}
	return &identityOut{id.Service, id.Host, id.Version, id.PID, moment(id.Started)}
}

// known returns a number, or nil if it is not known.
func known(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func millis(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}

// who describes the process behind a client, for people.
func who(client string, id *rlock.Identity) string {
	text := shown(catalog.Who(client, id))
	if id != nil && id.Version != "" {
		text += " " + shown(id.Version)
	}
	return text
}
