package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
)

func (a *app) show() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show who holds a lock and who waits for it", Args: takes("NAME"),
		Long: `show shows who holds a lock or a semaphore, for how long, and who waits for it, at most 100 of each. It only reads.

A holder or waiter is shown by the id of its client, and by its identity if the client has one (rlock.WithIdentity). Redisson has none.
A permit is shown by its id and its owner's identity. A lock that is kept after its use has nobody who holds it: show says who has had
it, and until when it is kept. A latch and a plain semaphore are shown as what Redis has of them, which is a counter.
The exit code is 1 if nobody holds it and nobody waits for it, and if it is no counter either.`,
		Example: "  rlock show orders:42\n  rlock show orders:42 --json | jq .holder_list[0].identity",
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withCatalog("show "+lockNamed(args[0]), func(ctx context.Context, c *catalog.Catalog) error {
				d, err := c.Show(ctx, args[0])
				switch {
				case err != nil:
					return err
				case d == nil:
					return &exit{code: exitNo, err: notHeld(args[0])}
				case asJSON:
					text, err := json.Marshal(detailsJSON(d))
					if err != nil {
						return err
					}
					return a.print(a.stdout, string(text)+"\n")
				}
				return a.print(a.stdout, describe(d))
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one object")
	cmd.ValidArgsFunction = a.completeNames
	return cmd
}

// describe returns what show shows to people.
func describe(d *catalog.Details) string {
	var text strings.Builder
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&text, "%-10s%s\n", what, fmt.Sprintf(format, args...))
	}
	line("name", "%s", shown(d.Name))
	switch d.Kind {
	case catalog.Counter:
		line("kind", "a counter with the value %d: a latch, or a plain semaphore; Redis does not know who has its permits", d.Free)
	default:
		line("kind", "%s", d.Kind)
	}
	switch {
	case d.Token != 0:
		line("token", "%d", d.Token)
	case d.Kind == catalog.Semaphore:
		line("permits", "%d free, %d out", d.Free, d.Holders)
	}
	switch {
	case d.Kept:
		line("kept", "until %s, for %s, by %s: nobody holds it", d.At.Add(d.Lease).Format(time.RFC3339), leaseText(d.Lease), ownerText(d.Client, d.Identity))
	case d.Kind != catalog.Semaphore && d.Kind != catalog.Counter:
		line("holders", "%d", d.Holders)
	}
	for _, h := range d.HolderList {
		line("", "%s", holderText(&h))
	}
	line("waiting", "%s", waitingText(&d.Row))
	for i, w := range d.WaiterList {
		line("", "%d. %s", i+1, waiterText(&w, d.At))
	}
	return text.String()
}

func holderText(h *rlock.HolderInfo) string {
	text := shown(h.Holder) + ", " + ownerText(h.Client, h.Identity)
	switch {
	case h.Kept:
		return text + ", has unlocked it, kept for " + leaseText(h.Lease)
	case h.Acquisitions > 1:
		text += fmt.Sprintf(", %d acquisitions", h.Acquisitions)
	}
	if h.Expired {
		return text + ", expired"
	}
	return text + ", lease " + leaseText(h.Lease)
}

// ownerText describes the process that holds something.
func ownerText(client string, id *rlock.Identity) string {
	if id == nil {
		return "Redisson, or rlock without identity"
	}
	text := who(client, id)
	if !id.Started.IsZero() {
		text += ", started " + id.Started.Format(time.RFC3339)
	}
	return text
}

func waiterText(w *rlock.WaiterInfo, now time.Time) string {
	text := shown(w.Client)
	if w.Identity != nil {
		text += ", " + who(w.Client, w.Identity)
	}
	if w.Redisson {
		text += ", Redisson"
	}
	if !w.Since.IsZero() {
		text += ", for " + leaseText(max(0, now.Sub(w.Since)))
	}
	return text
}
